/**
 * @file What workers commit: trajectories (token ids as sampled), invocations of sub-agents, outcomes of rollouts.
 * Each is one S3 object; an outcome names its invocations by key and SHA-256.
 */
import * as z from "zod";
import { Conversation } from "./conversation.ts";
import { AgentName, GroupIndex, InvocationId, RolloutIndex, RunName, Sha256, Step, Version } from "./names.ts";

/** One agent's part of a rollout, as it was sampled. T tokens. Only tokens inside `actions` were emitted by the policy. */
export const Trajectory = z.strictObject({
  agent: AgentName,
  version: Version,
  /** T token ids, prompt and tool responses included. */
  tokens: z.array(z.int().nonnegative()),
  /** Half-open spans [start, end) of tokens that the policy emitted, in order. */
  actions: z.array(z.tuple([z.int(), z.int()])),
  /** Behaviour log-probs of the action tokens, spans concatenated; at the sampling temperature. */
  logProbs: z.array(z.number().max(0)),
});
export type Trajectory = z.infer<typeof Trajectory>;

/** What an agent behind an API leaves: its words are in the conversation, its tokens are not ours, so nothing here can be trained on. */
export const EndpointTrajectory = z.strictObject({
  agent: AgentName,
  version: Version,
  /** As its server calls it. */
  model: z.string(),
  /** Sums over its turns, as the server counted them; every turn pays for the whole conversation before it. */
  usage: z.strictObject({ inputTokens: z.int().nonnegative(), outputTokens: z.int().nonnegative() }),
});
export type EndpointTrajectory = z.infer<typeof EndpointTrajectory>;

export const AnyTrajectory = z.union([Trajectory, EndpointTrajectory]);
export type AnyTrajectory = z.infer<typeof AnyTrajectory>;

/** Tokens that the agent itself emitted. */
export function sampledTokens(trajectory: AnyTrajectory): number {
  return "usage" in trajectory ? trajectory.usage.outputTokens : trajectory.logProbs.length;
}

/** Where a rollout stands in its run. Evaluation rollouts use step = team version and their own groups. */
export const RolloutAddress = z.strictObject({
  run: RunName,
  /** `train`, or `eval:<job id>`: names the random streams and the object prefix. */
  phase: z.string().regex(/^(train|eval:[A-Za-z0-9_-]+)$/),
  step: Step,
  group: GroupIndex,
  rollout: RolloutIndex,
});
export type RolloutAddress = z.infer<typeof RolloutAddress>;

/** Temperature 0 means greedy. `topK` 0 means off. Training always samples with top-p 1 and top-k off. */
export const Sampling = z.strictObject({
  temperature: z.number().min(0).max(10),
  topP: z.number().gt(0).max(1),
  topK: z.int().nonnegative(),
});
export type Sampling = z.infer<typeof Sampling>;

/** What a conversation may ask of its tools: calls, and dollars in millionths. Null: as much as it likes. */
export const Allowance = z.strictObject({
  calls: z.int().nonnegative().nullable(),
  microUsd: z.int().nonnegative().nullable(),
});
export type Allowance = z.infer<typeof Allowance>;

/** What it asked for, from a cache or not. */
export const Spent = z.strictObject({ calls: z.int().nonnegative(), microUsd: z.int().nonnegative() });
export type Spent = z.infer<typeof Spent>;

/** Body of `PUT /invocations/<id>`. The id is the hash of all of it. */
export const InvocationRequest = z.strictObject({
  address: RolloutAddress,
  questionId: z.string(),
  agent: AgentName,
  version: Version,
  /** Position of this call among all delegations of the rollout, in text order. */
  call: z.int().nonnegative(),
  task: z.string(),
  sampling: Sampling,
  /** Closed-book evaluation: every tool answers nothing. */
  closedBook: z.boolean(),
  /** Its part of what the rollout may ask of tools. Absent: there is no limit. */
  allowance: Allowance.exactOptional(),
});
export type InvocationRequest = z.infer<typeof InvocationRequest>;

/** The committed result of an invocation. */
export const Invocation = z.strictObject({
  id: InvocationId,
  request: InvocationRequest,
  conversation: Conversation,
  trajectory: AnyTrajectory,
  /** Of its allowance, where it had one. */
  spent: Spent.exactOptional(),
});
export type Invocation = z.infer<typeof Invocation>;

export const InvocationRef = z.strictObject({
  id: InvocationId,
  agent: AgentName,
  key: z.string(),
  sha256: Sha256,
});
export type InvocationRef = z.infer<typeof InvocationRef>;

/** What the caller of an invocation is told once it is committed: what was answered, and where the rest is. */
export const InvocationReport = z.strictObject({
  ref: InvocationRef,
  /** Null: its conversation ended without one. */
  answer: z.string().nullable(),
  /** As the record has it. */
  spent: Spent.exactOptional(),
});
export type InvocationReport = z.infer<typeof InvocationReport>;

/** How a rollout ended. Committed once at its key: the first writer wins, every loser adopts what is there. */
export const Outcome = z.discriminatedUnion("status", [
  z.strictObject({
    status: z.literal("finished"),
    address: RolloutAddress,
    questionId: z.string(),
    conversation: Conversation,
    trajectory: AnyTrajectory,
    invocations: z.array(InvocationRef),
  }),
  z.strictObject({
    status: z.literal("failed"),
    address: RolloutAddress,
    questionId: z.string(),
    /** Infrastructure, never the agents' own failure. */
    reason: z.string(),
  }),
]);
export type Outcome = z.infer<typeof Outcome>;
export type FinishedOutcome = Extract<Outcome, { status: "finished" }>;
