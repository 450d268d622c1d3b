/**
 * @file One agent's conversation; main and sub-agents alike. The reducer (core/conversation) decides, the speaker says the agent's
 * turns; here are the effects:
 *
 *     sample   waits for: the speaker                     unblocked by: end of turn, or maxTokens
 *     call     waits for: every tool and sub-agent of the turn, in parallel; answers keep the order of the text
 *     finish   closes the speaker, whatever happened
 *
 * A rejection is infrastructure (speaker, tool backend, worker, cancellation): the other calls of the turn are cancelled, and
 * the error goes out as it is. The agent's own failures come back as a conversation with their `stop`.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Conversation, ToolCall, ToolResponse, Turn } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Allowance, AnyTrajectory, InvocationRef, InvocationReport, Spent } from "../../core/contracts/rollout.ts";
import { escapeSpecialTokens, presentResponse } from "../../core/conversation/markers.ts";
import {
  advance,
  type Command,
  type Event,
  openConversation,
  type PlannedCall,
  type Rules,
} from "../../core/conversation/reducer.ts";
import { openToolBudget, type ToolBudget } from "../../core/conversation/tool-budget.ts";
import { DELEGATE } from "../../core/conversation/toolbox.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Tool, ToolContext } from "../../core/ports.ts";
import type { Speaker } from "./backend.ts";

/** What the main agent reads when a sub-agent ended without an answer: that agent's failure, not the infrastructure's. */
export const NO_REPORT = "no report";

export interface ConverseOptions<T extends AnyTrajectory = AnyTrajectory> {
  readonly speaker: Speaker<T>;
  readonly limits: AgentConfig["limits"];
  readonly question: Question;
  /** The question, or the subtask. */
  readonly prompt: string;
  readonly delegate: Delegate;
  /** Names the conversation in errors. */
  readonly sequence: string;
  /** Every tool answers the empty text without being run; delegations happen. */
  readonly closedBook: boolean;
  /** What it may ask of its tools, its delegations included; undefined: as much as it likes. */
  readonly allowance?: Allowance | undefined;
  /** Told of what is said, as it is said. */
  readonly tell?: ((moment: Moment) => void) | undefined;
  readonly signal: AbortSignal;
}

/** What somebody who listens hears of a conversation, in this order; `answered` in the order in which the calls of a turn end. */
export type Moment =
  | { readonly kind: "asked"; readonly prompt: string }
  | { readonly kind: "said"; readonly turn: Turn }
  | { readonly kind: "answered"; readonly call: ToolCall; readonly response: ToolResponse }
  | { readonly kind: "ended"; readonly conversation: Conversation };

export interface Delegated {
  readonly agent: string;
  readonly task: string;
  /** Counts the delegations of the conversation in text order. */
  readonly call: number;
  /** Its part of what the conversation may still ask of tools. */
  readonly allowance: Allowance | undefined;
}

/** Runs a sub-agent. */
export type Delegate = (delegated: Delegated, signal: AbortSignal) => Promise<InvocationReport>;

export interface Converse<T extends AnyTrajectory = AnyTrajectory> {
  readonly conversation: Conversation;
  readonly trajectory: T;
  /** In call order. */
  readonly invocations: InvocationRef[];
  /** What it and its sub-agents asked of their tools. */
  readonly spent: Spent;
}

/** What the tools of one conversation are told, whatever they are called with. */
interface Asked extends Omit<ToolContext, "signal"> {
  readonly budget: ToolBudget;
}

interface Answered {
  readonly response: ToolResponse;
  readonly ref?: InvocationRef;
}

export async function converse<T extends AnyTrajectory>(options: ConverseOptions<T>): Promise<Converse<T>> {
  const { speaker, limits, sequence, signal } = options;
  const rules: Rules = { limits, toolbox: speaker.toolbox };
  const invocations: InvocationRef[] = [];
  const prompt = escapeSpecialTokens(options.prompt);
  const { responseCharacters, responseTokens: tokens } = limits;
  const count = speaker.count?.bind(speaker);
  const asked: Asked = {
    ...{ question: options.question, budget: openToolBudget(options.allowance), responseCharacters },
    ...(tokens !== undefined && count && { responseTokens: { tokens, count } }),
  };
  let state = openConversation(prompt);
  const step = (event: Event): Command => {
    const next = advance(state, event, rules);
    state = next.state;
    return next.command;
  };

  const tell = options.tell ?? (() => {});
  try {
    tell({ kind: "asked", prompt });
    let command = step({ kind: "opened", promptTokens: speaker.ask(prompt) });
    while (command.kind !== "finish") {
      if (command.kind === "sample") {
        refuseAborted(signal, sequence);
        command = step({ kind: "sampled", ...(await speaker.say(command.turn, command.maxTokens, signal)) });
        const turn = state.turns.at(-1);
        if (turn) tell({ kind: "said", turn });
        continue;
      }
      const answered = await answerAll(command.calls, options, asked);
      for (const { ref } of answered) if (ref) invocations.push(ref);
      const responses = answered.map(({ response }) => response);
      command = step({ kind: "responded", responses, tokens: speaker.hear(responses.map(({ text }) => text)) });
    }
    tell({ kind: "ended", conversation: command.conversation });
    const { conversation } = command;
    return { conversation, trajectory: speaker.trajectory(), invocations, spent: asked.budget.spent() };
  } finally {
    speaker.close();
  }
}

/** All calls of a turn at once, tools first: what they leave in the budget is for the delegations. The first rejection cancels the others; a call that ignores cancellation is not waited for. */
async function answerAll(calls: readonly PlannedCall[], options: ConverseOptions, asked: Asked): Promise<Answered[]> {
  refuseAborted(options.signal, options.sequence);
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(reasonOf(options.signal, options.sequence)), { once: true });
  });
  try {
    const context = { ...asked, signal };
    const ofTools = calls.map((call) =>
      call.kind === "tool" ? told(call, options, () => answerByTool(call, options, context)) : undefined,
    );
    const parts = asked.budget.deal(calls.filter(({ kind }) => kind === "delegate").length)[Symbol.iterator]();
    const answers = calls.map((call, i) => {
      if (call.kind === "tool") return ofTools[i] as Promise<Answered>;
      const allowance = parts.next().value;
      return told(call, options, () => answerBySubAgent({ ...call, allowance }, options, context));
    });
    return await Promise.race([aborted, Promise.all(answers)]);
  } catch (error) {
    failed.abort(error);
    throw error;
  }
}

async function told(call: PlannedCall, options: ConverseOptions, answer: () => Promise<Answered>): Promise<Answered> {
  const answered = await answer();
  const { name, arguments: args } =
    call.kind === "tool" ? call : { name: DELEGATE, arguments: { agent: call.agent, task: call.task } };
  options.tell?.({ kind: "answered", call: { name, arguments: args }, response: answered.response });
  return answered;
}

const present = (text: string, { responseCharacters, responseTokens }: ToolContext) =>
  presentResponse(text, responseCharacters, responseTokens);

async function answerBySubAgent(
  { task, ...delegated }: Delegated,
  { delegate }: ConverseOptions,
  context: ToolContext & Asked,
): Promise<Answered> {
  const { ref, answer, spent } = await delegate({ ...delegated, task: escapeSpecialTokens(task) }, context.signal);
  if (spent) context.budget.settle(spent);
  const text = present(answer ?? NO_REPORT, context);
  return { response: { name: DELEGATE, text, invocation: ref.id }, ref };
}

async function answerByTool(
  call: ToolPlanned,
  { speaker, closedBook }: ConverseOptions,
  context: ToolContext,
): Promise<Answered> {
  if (closedBook) return { response: { name: call.name, text: "" } };
  const text = present(await runTool(call, speaker.toolbox.tools, context), context);
  return { response: { name: call.name, text } };
}

type ToolPlanned = Extract<PlannedCall, { kind: "tool" }>;

/** An error that a tool does not own up to (a bug, a driver's own) is its backend's: it must not become text or reward. */
async function runTool(call: ToolPlanned, tools: ReadonlyMap<string, Tool>, context: ToolContext): Promise<string> {
  const { question, signal } = context;
  const tool = tools.get(call.name);
  if (!tool) throw new RangeError(`tool '${call.name}' was parsed but is not there`);
  try {
    return await tool.run(tool.parameters.parse(call.arguments) as never, context);
  } catch (cause) {
    if (cause instanceof MgrpoError) throw cause;
    if (signal.aborted) throw new MgrpoError("cancelled", `tool '${call.name}' was cancelled`, { cause });
    const fault = cause instanceof Error ? cause.message : String(cause);
    throw new MgrpoError("tool-backend", `tool '${call.name}' failed on question '${question.id}': ${fault}`, {
      retryable: true,
      cause,
      evidence: call.arguments,
    });
  }
}

function refuseAborted(signal: AbortSignal, sequence: string): void {
  if (signal.aborted) throw reasonOf(signal, sequence);
}

function reasonOf(signal: AbortSignal, sequence: string): MgrpoError {
  const cause: unknown = signal.reason;
  return cause instanceof MgrpoError
    ? cause
    : new MgrpoError("cancelled", `conversation ${sequence} was cancelled`, { cause });
}
