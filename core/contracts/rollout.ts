/**
 * @file What workers commit: outcomes of rollouts and invocations of sub-agents, with their trajectories (token ids as sampled). Each is one
 * S3 object. An outcome names its invocations by key and SHA-256.
 */
import * as z from "zod";
import { Reason } from "./bounds.ts";
import { Conversation } from "./conversation.ts";
import { UnitScore } from "./judge.ts";
import { AgentName, GroupIndex, InvocationId, RolloutIndex, RunName, Sha256, Step, Version } from "./names.ts";

/** The tokens of one conversation of an agent, as sampled: T of them. The policy emitted only those inside `actions`. */
export const Trajectory = z.strictObject({
  agent: AgentName,
  version: Version,
  /** T token ids, prompt and tool responses included. */
  tokens: z.array(z.int().nonnegative()),
  /** Half-open spans [start, end) of tokens that the policy emitted, ascending. */
  actions: z.array(z.tuple([z.int(), z.int()])),
  /** Behavior log-probs of the action tokens at the sampling temperature, spans concatenated. */
  logProbs: z.array(z.number().max(0)),
});
export type Trajectory = z.infer<typeof Trajectory>;

/** The trajectory of an agent behind an API. Its text is in the conversation; without its tokens it cannot be trained on. */
export const EndpointTrajectory = z.strictObject({
  agent: AgentName,
  version: Version,
  /** The model's name on the server. */
  model: z.string(),
  /** Sums over its turns, as the server counted them. The input of a turn is the whole conversation before it. */
  usage: z.strictObject({ inputTokens: z.int().nonnegative(), outputTokens: z.int().nonnegative() }),
});
export type EndpointTrajectory = z.infer<typeof EndpointTrajectory>;

export const AnyTrajectory = z.union([Trajectory, EndpointTrajectory]);
export type AnyTrajectory = z.infer<typeof AnyTrajectory>;

/** Tokens that the agent itself emitted. */
export function sampledTokens(trajectory: AnyTrajectory): number {
  return "usage" in trajectory ? trajectory.usage.outputTokens : trajectory.logProbs.length;
}

/** Identifies a rollout. For evaluation rollouts, `step` is the team's number (`addressStep`) and `group` the question. */
export const RolloutAddress = z.strictObject({
  run: RunName,
  /** `train`, or `eval:<job id>`. Part of object keys. */
  phase: z.string().regex(/^(train|eval:[A-Za-z0-9_-]+)$/),
  step: Step,
  group: GroupIndex,
  rollout: RolloutIndex,
});
export type RolloutAddress = z.infer<typeof RolloutAddress>;

/** The highest temperature at which tokens are sampled. */
export const MAX_TEMPERATURE = 10;

/** Temperature 0: greedy. `topK` 0: off. Training always samples with top-p 1 and top-k off. */
export const Sampling = z.strictObject({
  temperature: z.number().min(0).max(MAX_TEMPERATURE),
  topP: z.number().gt(0).max(1),
  topK: z.int().nonnegative(),
});
export type Sampling = z.infer<typeof Sampling>;

/** The tool budget of a rollout, or the share of one of its invocations: calls, and micro-dollars. Null: no limit. */
export const Allowance = z.strictObject({
  calls: z.int().nonnegative().nullable(),
  microUsd: z.int().nonnegative().nullable(),
});
export type Allowance = z.infer<typeof Allowance>;

/** The part of a tool budget that was used, cached answers included. */
export const Spent = z.strictObject({ calls: z.int().nonnegative(), microUsd: z.int().nonnegative() });
export type Spent = z.infer<typeof Spent>;

/** What a step pins for one agent: the version that samples, and how. */
export const PinnedAgent = z.strictObject({ version: Version, sampling: Sampling });
export type PinnedAgent = z.infer<typeof PinnedAgent>;

/** Body of `PUT /invocations/<id>`. The id is the hash of the whole body. */
export const InvocationRequest = z.strictObject({
  address: RolloutAddress,
  questionId: z.string(),
  agent: AgentName,
  version: Version,
  /**
   * Position of this call among all delegations of its caller's conversation, in text order. In an app's rollout: among
   * the agent's conversations.
   */
  call: z.int().nonnegative(),
  /** Positions of the calls that led to the caller, the main agent's first. Absent: the main agent is the caller. */
  callers: z.array(z.int().nonnegative()).min(1).exactOptional(),
  /** All agents below this one. Absent: it cannot delegate. */
  below: z.record(AgentName, PinnedAgent).exactOptional(),
  task: z.string(),
  sampling: Sampling,
  /** Closed-book evaluation: tools return nothing. */
  closedBook: z.boolean(),
  /** Its share of the rollout's tool budget. Absent: no limit. */
  allowance: Allowance.exactOptional(),
});
export type InvocationRequest = z.infer<typeof InvocationRequest>;

/** Which delegation led to a conversation: the positions of the calls, the main agent's first. Empty: the main agent's own conversation. */
export type CallPath = readonly number[];

export const callPathOf = ({ callers = [], call }: Pick<InvocationRequest, "callers" | "call">): CallPath => [
  ...callers,
  call,
];

/** In text order; a call before those that it led to. */
export function compareCallPaths(a: CallPath, b: CallPath): number {
  const i = a.findIndex((call, level) => call !== b[level]);
  return i < 0 || i >= b.length ? a.length - b.length : (a[i] ?? 0) - (b[i] ?? 0);
}

/** What the gateway counted in an agent's part of a rollout. */
export const BranchCounts = z.strictObject({
  /** Conversations, each from a first message to a last reply. */
  branches: z.int().nonnegative(),
  /** Requests that add a reply which the agent did not give, except examples: replies with which all of the agent's conversations begin. */
  rewritten: z.int().nonnegative(),
  /** Replies with a stray tag, too many tool calls, or a call that is unreadable or names a tool not offered. */
  unparsed: z.int().nonnegative(),
  /** Replies cut off at the token limit. */
  cut: z.int().nonnegative(),
});
export type BranchCounts = z.infer<typeof BranchCounts>;

export const InvocationRef = z.strictObject({
  id: InvocationId,
  agent: AgentName,
  key: z.string(),
  sha256: Sha256,
});
export type InvocationRef = z.infer<typeof InvocationRef>;

/** The invocations that an invocation led to, in call order, each followed by its own descendants. */
const Descendants = z.array(InvocationRef).min(1);

/** The committed result of an invocation. */
export const Invocation = z.strictObject({
  id: InvocationId,
  request: InvocationRequest,
  conversation: Conversation,
  trajectory: AnyTrajectory,
  /** The part of its allowance that was used, if it had one. */
  spent: Spent.exactOptional(),
  /** Absent: it led to none. */
  invocations: Descendants.exactOptional(),
});
export type Invocation = z.infer<typeof Invocation>;

/** What the caller of an invocation gets once it is committed: the answer, and a reference to the record. */
export const InvocationReport = z.strictObject({
  ref: InvocationRef,
  /** Null: the conversation ended without an answer. */
  answer: z.string().nullable(),
  spent: Spent.exactOptional(),
  /** Absent: it led to none. */
  invocations: Descendants.exactOptional(),
});
export type InvocationReport = z.infer<typeof InvocationReport>;

/** The part of an outcome that exists only if an app ran the rollout. */
export const AppRecord = z.strictObject({
  /**
   * Further branches of the main agent's conversation. Together with the outcome's `trajectory` they have the weight of
   * one trajectory.
   */
  branches: z.array(Trajectory),
  /** Rewards that the app gave: of the rollout, and by sub-agent. They replace the recipe's verdicts. */
  reward: UnitScore.exactOptional(),
  rewards: z.record(AgentName, UnitScore).exactOptional(),
  /** By agent. */
  counts: z.record(AgentName, BranchCounts),
});
export type AppRecord = z.infer<typeof AppRecord>;

/** How a rollout ended. Committed once at its key: the first writer wins, and the others use the stored outcome. */
export const Outcome = z.discriminatedUnion("status", [
  z.strictObject({
    status: z.literal("finished"),
    address: RolloutAddress,
    questionId: z.string(),
    conversation: Conversation,
    trajectory: AnyTrajectory,
    /** All of the rollout: the main agent's in call order, each followed by those that it led to. From an app: agent by agent. */
    invocations: z.array(InvocationRef),
    app: AppRecord.exactOptional(),
  }),
  z.strictObject({
    status: z.literal("failed"),
    address: RolloutAddress,
    questionId: z.string(),
    /** An infrastructure failure. The agents' own failures are `finished`. */
    reason: Reason,
  }),
]);
export type Outcome = z.infer<typeof Outcome>;
export type FinishedOutcome = Extract<Outcome, { status: "finished" }>;

/** The main agent's trajectories: one, or the branches of a rollout that an app ran. */
export const mainTrajectories = ({ trajectory, app }: FinishedOutcome): AnyTrajectory[] => [
  trajectory,
  ...(app?.branches ?? []),
];
