/**
 * @file A scored rollout as spans, by OpenTelemetry's conventions for generative AI (semantic-conventions-genai, in development):
 *
 *     invoke_agent main                       rewards as gen_ai.evaluation.result events; advantage and weight as attributes
 *     ├─ chat <model>                         one turn
 *     ├─ execute_tool <tool>
 *     └─ invoke_agent searcher                a delegation, with its own turns
 *
 * An app's record does not say which calls were delegations: a sub-agent's span is below that of the call which names its task.
 *
 * Pure. Turns and calls take as long as was measured. Those of a rollout that was not measured get equal shares of the step's time, in the
 * order in which they happened.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Conversation, Turn } from "../contracts/conversation.ts";
import type { AgentBatch, GroupRecord, ScoredRollout } from "../contracts/records.ts";
import { type FinishedOutcome, type Invocation, mainTrajectories, sampledTokens } from "../contracts/rollout.ts";
import type { TurnLatency } from "../contracts/telemetry.ts";
import { trajectoryWeights } from "../mgrpo/batch.ts";
import { sum } from "../statistics.ts";
import { trainedBatch } from "../training/step-plan.ts";
import { callKey, type InvocationPlacement, placeInvocations, responsesOf } from "./placement.ts";
import { spanTimes } from "./span-times.ts";

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanEvent {
  readonly name: string;
  readonly attributes: SpanAttributes;
}

export interface Span {
  /** Unique in its rollout, and the same whenever the rollout is read. */
  readonly id: string;
  readonly parent: string | undefined;
  readonly name: string;
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** Seconds since the rollout began, if its latencies are known; else fractions of the step's time. */
  readonly start: number;
  readonly end: number;
}

export interface TracedRollout {
  readonly config: Pick<RunConfig, "agents">;
  readonly outcome: FinishedOutcome;
  readonly invocations: ReadonlyMap<string, Invocation>;
  readonly group: GroupRecord;
  /** Agent -> its model. */
  readonly models: Readonly<Record<string, string>>;
  /** How long its turns took, by `latencyName`. */
  readonly latencies?: ReadonlyMap<string, readonly TurnLatency[]>;
  /** The recipe's note for readers of the question's rollouts. */
  readonly note?: string;
  /** Whether the spans contain prompts, outputs, arguments, responses and the note. */
  readonly content: boolean;
}

export interface RolloutSpans {
  /** Parents first. */
  readonly spans: readonly Span[];
  /** How long the rollout took; undefined: its spans are in fractions of the step's time. */
  readonly seconds: number | undefined;
}

export function spansOf(traced: TracedRollout): RolloutSpans {
  const { outcome, group, invocations } = traced;
  const { rollout } = outcome.address;
  const score = group.rollouts[String(rollout)];
  const scored = score && !("excluded" in score) ? score : undefined;
  const { agent } = outcome.trajectory;
  const drafts = draftsOfAgent(traced, {
    id: "main",
    parent: undefined,
    agent,
    conversation: outcome.conversation,
    version: outcome.trajectory.version,
    outputTokens: sum(mainTrajectories(outcome).map(sampledTokens)),
    ...(outcome.app && { placement: placeInvocations(outcome.conversation.turns, invocations) }),
    extra: {
      ...(scored && mainAttributes(scored)),
      ...trainingAttributes(trainedBatch(traced.config, group, agent), rollout),
      ...noteOf(traced),
    },
    events: scored ? [evaluation("correct", scored.correct), evaluation("reward", scored.reward)] : [],
    scored,
  });
  const times = spanTimes(traced);
  if (!times) return { spans: sharesOf(drafts), seconds: undefined };
  const [, seconds] = times.get("main") ?? [0, 0];
  const spans = drafts.map(({ span }) => {
    const [start, end] = times.get(span.id) ?? [seconds, seconds];
    return { ...span, start, end };
  });
  return { spans, seconds };
}

/** Gives each leaf (a turn, a tool call, or an agent without turns) an equal share of the time, in the order in which the leaves happened. */
function sharesOf(drafts: readonly SpanDraft[]): Span[] {
  const leaves = drafts.filter(({ isLeaf }) => isLeaf);
  const positionOf = new Map(leaves.map(({ span }, i) => [span.id, i]));
  return drafts.map(({ span, isLeaf }) => {
    const own = isLeaf ? [span.id] : leavesBelow(drafts, span.id);
    const positions = own.flatMap((id) => positionOf.get(id) ?? []);
    const count = Math.max(1, leaves.length);
    const [start, end] = [Math.min(...positions, count), Math.max(...positions, 0) + 1];
    return { ...span, start: Math.min(start, end) / count, end: end / count };
  });
}

interface SpanDraft {
  readonly span: Omit<Span, "start" | "end">;
  readonly isLeaf: boolean;
}

function leavesBelow(drafts: readonly SpanDraft[], id: string): string[] {
  return drafts
    .filter(({ span }) => span.parent === id)
    .flatMap(({ span, isLeaf }) => (isLeaf ? [span.id] : leavesBelow(drafts, span.id)));
}

interface AgentPart {
  readonly id: string;
  readonly parent: string | undefined;
  readonly agent: string;
  readonly conversation: Conversation;
  readonly version: number;
  readonly outputTokens: number;
  /** Of the sub-agents' conversations, if an app ran the rollout. */
  readonly placement?: InvocationPlacement;
  readonly extra: SpanAttributes;
  readonly events: readonly SpanEvent[];
  readonly scored: ScoredRollout | undefined;
}

function draftsOfAgent(traced: TracedRollout, part: AgentPart): SpanDraft[] {
  const { id, parent, agent, conversation, placement, extra, events } = part;
  const { run, step, group, rollout } = traced.outcome.address;
  const model = traced.models[agent] ?? "";
  const attributes: SpanAttributes = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": agent,
    "gen_ai.request.model": model,
    "gen_ai.conversation.id": `${run}/${step}/${group}/${rollout}`,
    "gen_ai.usage.output_tokens": part.outputTokens,
    "mgrpo.policy.version": part.version,
    "mgrpo.stop": conversation.stop,
    ...extra,
    ...(traced.content && { "gen_ai.input.messages": JSON.stringify([message("user", conversation.prompt)]) }),
    ...(traced.content &&
      conversation.answer !== null && { "gen_ai.output.messages": outputMessages(conversation.answer, "stop") }),
  };
  const span = { id, parent, name: `invoke_agent ${agent}`, attributes, events };
  const turns = conversation.turns.flatMap((turn, i) => [
    ...draftsOfTurn(traced, part, turn, i, model),
    ...placedBelow(traced, part, id, placement?.ofTurn.get(i)),
  ]);
  const descendants = [...turns, ...placedBelow(traced, part, id, placement?.left)];
  return [{ span, isLeaf: descendants.length === 0 }, ...descendants];
}

function draftsOfTurn(traced: TracedRollout, part: AgentPart, turn: Turn, index: number, model: string): SpanDraft[] {
  const id = `${part.id}/${index}`;
  const chat: SpanDraft = {
    span: {
      id,
      parent: part.id,
      name: `chat ${model}`,
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        ...(traced.content && {
          "gen_ai.output.messages": outputMessages(turn.text, finishReason(part.conversation, turn)),
        }),
      },
      events: [],
    },
    isLeaf: true,
  };
  const { byCall } = responsesOf(turn);
  const calls = turn.calls.flatMap((call, i): SpanDraft[] => {
    const response = byCall[i];
    const placed = part.placement?.ofCall.get(callKey(index, i));
    // In the last turn that the limit allows, calls do not run. An app may also end without answering its last calls.
    if (!response) return placedBelow(traced, part, part.id, placed);
    const invocation = response.invocation === undefined ? undefined : traced.invocations.get(response.invocation);
    if (invocation) return delegation(traced, part, invocation, `${id}/${i}`, part.id);
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": call.name,
      ...(traced.content && { "gen_ai.tool.call.arguments": JSON.stringify(call.arguments) }),
      ...(traced.content && { "gen_ai.tool.call.result": response.text }),
    };
    const span = { id: `${id}/${i}`, parent: part.id, name: `execute_tool ${call.name}`, attributes, events: [] };
    const descendants = placedBelow(traced, part, span.id, placed);
    return [{ span, isLeaf: descendants.length === 0 }, ...descendants];
  });
  return [chat, ...calls];
}

/** Conversations of sub-agents that an app's record does not place itself. */
function placedBelow(traced: TracedRollout, part: AgentPart, parent: string, ids: readonly string[] = []): SpanDraft[] {
  return ids.flatMap((id) => {
    const invocation = traced.invocations.get(id);
    return invocation ? delegation(traced, part, invocation, `${parent}/${id}`, parent) : [];
  });
}

function delegation(
  traced: TracedRollout,
  part: AgentPart,
  invocation: Invocation,
  id: string,
  parent: string,
): SpanDraft[] {
  const { agent } = invocation.request;
  const own = part.scored?.invocations[agent] ?? [];
  const index = own.findIndex((one) => one.id === invocation.id);
  const score = own[index];
  const trajectory = `${traced.outcome.address.rollout}/${index}`;
  return draftsOfAgent(traced, {
    id,
    parent,
    agent,
    conversation: invocation.conversation,
    version: invocation.trajectory.version,
    outputTokens: sampledTokens(invocation.trajectory),
    extra: trainingAttributes(trainedBatch(traced.config, traced.group, agent), trajectory),
    events: score ? [evaluation("expert", score.expert), evaluation("reward", score.reward)] : [],
    scored: part.scored,
  });
}

const mainAttributes = ({ wellFormed }: ScoredRollout): SpanAttributes => ({ "mgrpo.well_formed": wellFormed });

const noteOf = ({ note, content }: TracedRollout): SpanAttributes =>
  content && note !== undefined ? { "mgrpo.question.note": note } : {};

/** A trajectory's advantage and weight in its group; empty if it was not trained on. */
function trainingAttributes(batch: AgentBatch | undefined, trajectory: number | string): SpanAttributes {
  const i = batch?.trajectories.indexOf(trajectory) ?? -1;
  const advantage = batch?.advantages[i];
  if (!batch || advantage === undefined) return {};
  return { "mgrpo.advantage": advantage, "mgrpo.weight": trajectoryWeights(batch)[i] ?? 0 };
}

const evaluation = (name: string, value: number): SpanEvent => ({
  name: "gen_ai.evaluation.result",
  attributes: { "gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value },
});

type FinishReason = "stop" | "tool_call" | "length";

/** A turn that was cut off has no calls; one that left no room for its responses does. */
function finishReason({ turns, stop }: Conversation, turn: Turn): FinishReason {
  if (turn.calls.length > 0) return "tool_call";
  return stop === "token-limit" && turn === turns.at(-1) ? "length" : "stop";
}

const outputMessages = (content: string, finish_reason: FinishReason): string =>
  JSON.stringify([{ ...message("assistant", content), finish_reason }]);

const message = (role: string, content: string) => ({ role, parts: [{ type: "text", content }] });
