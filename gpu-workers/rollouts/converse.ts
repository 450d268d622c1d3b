/**
 * @file One agent's conversation, main and sub-agents alike. The reducer (core/conversation/reducer.ts) decides; this file has the effects:
 *
 *     sample   waits for: the backend                                      unblocked by: end of turn, maxTokens, or the signal
 *     call     waits for: every tool and sub-agent of the turn (answer-calls.ts)
 *     finish   closes the backend, also after an error, once its last turn has ended
 *
 * A rejection is never the agent's own failure, which ends the conversation with a `stop`.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Conversation, ToolCall, ToolResponse, Turn } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Allowance, AnyTrajectory, InvocationRef, RolloutAddress, Spent } from "../../core/contracts/rollout.ts";
import type { TurnLatency } from "../../core/contracts/telemetry.ts";
import {
  advanceConversation,
  type ConversationEvent,
  type ConversationRules,
  openConversation,
} from "../../core/conversation/reducer.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { openToolBudget, type ToolBudget } from "../../core/conversation/tool-budget.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { cancelable } from "../limits.ts";
import {
  abortError,
  answerCalls,
  type CallContext,
  type Delegate,
  secondsSince,
  throwIfAborted,
} from "./answer-calls.ts";
import type { AgentBackend, GeneratedTurn } from "./backend.ts";

export interface ConverseOptions<T extends AnyTrajectory = AnyTrajectory> {
  readonly backend: AgentBackend<T>;
  readonly limits: AgentConfig["limits"];
  readonly address: RolloutAddress;
  readonly question: Question;
  /** The question's prompt, or the subtask. */
  readonly prompt: string;
  readonly delegate: Delegate;
  /** Names the conversation in errors. */
  readonly sequence: string;
  /** Tools do not run: their responses are empty. Delegations run. */
  readonly closedBook: boolean;
  /** Limit on the time of one tool call; undefined: none. */
  readonly toolSeconds?: number | undefined;
  /** Its tool budget, that of its delegations included; undefined: no limit. */
  readonly allowance?: Allowance | undefined;
  /** Called as the conversation proceeds. */
  readonly onProgress?: ((progress: ConversationProgress) => void) | undefined;
  readonly signal: AbortSignal;
}

/** What an observer of a conversation gets, in this order. `response` comes as the calls of a turn complete, in any order. */
export type ConversationProgress =
  | {
      readonly kind: "prompt";
      readonly prompt: string;
      /** Names of the tools that an app offers the agent. */
      readonly tools?: readonly string[];
    }
  | { readonly kind: "turn"; readonly turn: Turn }
  | { readonly kind: "response"; readonly call: ToolCall; readonly response: ToolResponse }
  | { readonly kind: "end"; readonly conversation: Conversation };

export interface ConversationResult<T extends AnyTrajectory = AnyTrajectory> {
  readonly conversation: Conversation;
  readonly trajectory: T;
  /** In call order, each followed by those that it led to. */
  readonly invocations: InvocationRef[];
  /** The part of the tool budget that the agent and its sub-agents used. */
  readonly spent: Spent;
  /** One per turn. */
  readonly latencies: TurnLatency[];
}

export async function converse<T extends AnyTrajectory>(options: ConverseOptions<T>): Promise<ConversationResult<T>> {
  const { backend, limits, sequence, signal, onProgress = () => {} } = options;
  const rules: ConversationRules = { limits, toolbox: backend.toolbox };
  const budget = openToolBudget(options.allowance);
  const context = callContext(options, budget, onProgress);
  const invocations: InvocationRef[] = [];
  const latencies: TurnLatency[] = [];
  const prompt = escapeSpecialTokens(options.prompt);
  /** The turn that is being generated. It may outlast an abort. */
  let generating: Promise<GeneratedTurn> | undefined;
  try {
    onProgress({ kind: "prompt", prompt });
    const opened: ConversationEvent = { kind: "opened", promptTokens: backend.start(prompt) };
    let { state, command } = advanceConversation(openConversation(prompt), opened, rules);
    while (command.kind !== "finish") {
      if (command.kind === "sample") {
        throwIfAborted(signal, sequence);
        const since = performance.now();
        generating = backend.generate(command.turn, command.maxTokens, signal);
        const turn = await cancelable(generating, signal);
        generating = undefined;
        latencies.push({ sampling: secondsSince(since), calls: [] });
        ({ state, command } = advanceConversation(state, { kind: "sampled", ...turn }, rules));
        const last = state.turns.at(-1);
        if (last) onProgress({ kind: "turn", turn: last });
      } else {
        const answers = await answerCalls(command.calls, context, signal);
        invocations.push(...answers.flatMap((answer) => answer.invocations));
        latencies.at(-1)?.calls.push(...answers.map(({ seconds }) => seconds));
        const responses = answers.map(({ response }) => response);
        const tokens = backend.observe(responses.map(({ text }) => text));
        ({ state, command } = advanceConversation(state, { kind: "responded", responses, tokens }, rules));
      }
    }
    const { conversation } = command;
    onProgress({ kind: "end", conversation });
    return { conversation, trajectory: backend.trajectory(), invocations, spent: budget.spent(), latencies };
  } catch (error) {
    throw signal.aborted && isMgrpoError(error, "canceled") ? abortError(signal, sequence) : error;
  } finally {
    const close = () => backend.close();
    if (generating) generating.then(close, close);
    else close();
  }
}

function callContext(
  { backend, limits, address, question, delegate, closedBook, toolSeconds, sequence }: ConverseOptions,
  budget: ToolBudget,
  onProgress: (progress: ConversationProgress) => void,
): CallContext {
  const { responseCharacters, responseTokens: tokens } = limits;
  const count = backend.count?.bind(backend);
  return {
    toolContext: {
      question,
      address,
      budget,
      responseCharacters,
      ...(tokens !== undefined && count && { responseTokens: { tokens, count } }),
    },
    tools: backend.toolbox.tools,
    delegate,
    budget,
    closedBook,
    toolSeconds,
    sequence,
    onResponse: (call, response) => onProgress({ kind: "response", call, response }),
  };
}
