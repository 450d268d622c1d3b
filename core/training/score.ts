/**
 * @file A rollout's score, from the committed objects and the judges' verdicts (eq 4 and 5), and the checks behind the invariant "a finalized
 * group can be loaded": a rollout whose objects are inconsistent is lost, never scored.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import { algorithmOf } from "../contracts/algorithm-overrides.ts";
import type { RunConfig } from "../contracts/config.ts";
import type { Conversation } from "../contracts/conversation.ts";
import { totalCost, type Verdict } from "../contracts/judge.ts";
import { digestOf, type Sha256 } from "../contracts/names.ts";
import type { GroupRecord, ScoredInvocation, ScoredRollout, StepRecord } from "../contracts/records.ts";
import {
  type AnyTrajectory,
  type CallPath,
  callPathOf,
  compareCallPaths,
  type FinishedOutcome,
  type Invocation,
  type InvocationRequest,
  mainTrajectories,
  type RolloutAddress,
  sampledTokens,
} from "../contracts/rollout.ts";
import { MgrpoError } from "../errors.ts";
import { callerCorrect, mainReward, overlongPenalty, subReward } from "../mgrpo/reward.ts";

/** The judges' verdicts. `experts` is parallel to the invocations. */
export interface Verdicts {
  readonly correct: Verdict;
  readonly experts: readonly Verdict[];
}

/** The verdict on a conversation about which no judge is asked: it is not well-formed, or its score changes no reward. */
export const UNJUDGED: Verdict = { score: 0 };

/** The verdict that an app gave on its own rollout, or on a sub-agent's part of it. Undefined: the recipe's rewards decide. */
export function appVerdict({ app }: FinishedOutcome, subAgent?: string): Verdict | undefined {
  const score = subAgent === undefined ? app?.reward : app?.rewards?.[subAgent];
  return score === undefined ? undefined : { score };
}

export const isWellFormed = (conversation: Conversation) => conversation.stop === "answered";

const isTruncated = ({ stop }: Conversation) => stop === "turn-limit" || stop === "token-limit";

/** Whether the responses to its last turn left no room in the context for another. */
const isOverflowing = ({ stop, turns }: Conversation) =>
  stop === "token-limit" && (turns.at(-1)?.responses.length ?? 0) > 0;

/** The settings that a score depends on. */
type ScoreConfig = Pick<RunConfig, "main" | "agents" | "algorithm">;

/** R_M (eq 4), and each R_S (eq 5) by sub-agent in call order. `outcomeSha256`: the hash of the judged object. */
export function scoreRollout(
  config: ScoreConfig,
  outcome: FinishedOutcome,
  invocations: readonly Invocation[],
  verdicts: Verdicts,
  outcomeSha256: Sha256,
): ScoredRollout {
  const { main } = config;
  const algorithm = algorithmOf(config, main);
  const correct = verdicts.correct.score;
  const wellFormed = isWellFormed(outcome.conversation);
  const penalty = penaltyOf(config, main, outcome.conversation, mainTrajectories(outcome));
  const judged = totalCost([verdicts.correct, ...verdicts.experts].flatMap(({ cost }) => cost ?? []));
  return {
    reward: mainReward(wellFormed, correct, algorithm.mainReward) + penalty,
    correct,
    wellFormed,
    tokens: [...mainTrajectories(outcome), ...invocations.map(({ trajectory }) => trajectory)].reduce(
      (sum, trajectory) => sum + sampledTokens(trajectory),
      0,
    ),
    digest: digestOf(outcomeSha256),
    invocations: scoreInvocations(config, outcome, invocations, verdicts),
    ...(judged && { judged }),
    ...maskOf(algorithm, outcome.conversation),
    ...turnRewardsOf(config, main, verdicts.correct, outcome.conversation),
  };
}

/** An invocation with its verdict, not yet scored. */
interface JudgedInvocation {
  readonly invocation: Invocation;
  readonly path: CallPath;
  readonly expert: number;
  readonly verdict: Verdict;
  readonly sha256: Sha256;
}

function scoreInvocations(
  config: ScoreConfig,
  outcome: FinishedOutcome,
  invocations: readonly Invocation[],
  verdicts: Verdicts,
): ScoredRollout["invocations"] {
  const judged = invocations
    .map((invocation, i): JudgedInvocation => {
      const verdict = verdicts.experts[i] ?? UNJUDGED;
      const path = callPathOf(invocation.request);
      return { invocation, path, expert: verdict.score, verdict, sha256: outcome.invocations[i]?.sha256 ?? "" };
    })
    .toSorted((a, b) => compareCallPaths(a.path, b.path));
  const creditOf = callerCredits(config, judged, verdicts.correct.score);
  const byAgent: ScoredRollout["invocations"] = {};
  for (const one of judged) {
    const { agent } = one.invocation.request;
    byAgent[agent] = [...(byAgent[agent] ?? []), scoreInvocation(config, one, creditOf(one.invocation.request))];
  }
  return byAgent;
}

/**
 * The correctness credited to a caller, and whether it is unknown: the caller, or a sub-agent above it, was truncated under `overlong: mask`.
 * Never unknown for the main agent: `finalizeGroup` leaves out all invocations of a masked rollout.
 */
interface CallerCredit {
  readonly correct: number;
  readonly isUnknown: boolean;
}

/**
 * The credit that each invocation inherits from its caller: eq 5, applied level by level. `correct`: the main agent's correctness. `judged`:
 * all invocations of the rollout.
 */
export function callerCredits(
  config: ScoreConfig,
  judged: readonly Pick<JudgedInvocation, "invocation" | "expert">[],
  correct: number,
): (request: Pick<InvocationRequest, "callers">) => CallerCredit {
  const byPath = new Map(judged.map((one) => [callPathOf(one.invocation.request).join("/"), one]));
  const creditOf = ({ callers }: Pick<InvocationRequest, "callers">): CallerCredit => {
    const caller = callers && byPath.get(callers.join("/"));
    if (!caller) return { correct, isUnknown: false };
    const { request, conversation } = caller.invocation;
    const above = creditOf(request);
    const algorithm = algorithmOf(config, request.agent);
    return {
      correct: callerCorrect(isWellFormed(conversation), above.correct, caller.expert, algorithm.subReward),
      isUnknown: above.isUnknown || isMasked(algorithm, conversation),
    };
  };
  return creditOf;
}

function scoreInvocation(
  config: ScoreConfig,
  { invocation: { id, request, conversation, trajectory }, expert, verdict, sha256 }: JudgedInvocation,
  { correct, isUnknown }: CallerCredit,
): ScoredInvocation {
  const algorithm = algorithmOf(config, request.agent);
  const reward = subReward(isWellFormed(conversation), correct, expert, algorithm.subReward);
  return {
    id,
    reward: reward + penaltyOf(config, request.agent, conversation, [trajectory]),
    expert,
    digest: digestOf(sha256),
    ...(isUnknown ? { masked: "caller" } : maskOf(algorithm, conversation)),
    ...turnRewardsOf(config, request.agent, verdict, conversation),
  };
}

/**
 * The penalty of the longest of these trajectories, at most 0. Responses that overflowed the context were never shown and are in no
 * trajectory: their conversation counts as `contextTokens` long. An agent behind an API has no tokens, is not trained and has no penalty.
 */
function penaltyOf(
  config: ScoreConfig,
  agent: string,
  conversation: Conversation,
  trajectories: readonly AnyTrajectory[],
): number {
  const limits = config.agents[agent]?.limits;
  const { overlongPenalty: penalty } = algorithmOf(config, agent);
  if (penalty === null || !limits) return 0;
  const least = isOverflowing(conversation) ? limits.contextTokens : 0;
  const longest = Math.max(0, ...trajectories.map((one) => ("tokens" in one ? Math.max(one.tokens.length, least) : 0)));
  return overlongPenalty(longest, limits.contextTokens, penalty);
}

const isMasked = ({ overlong }: AlgorithmConfig, conversation: Conversation): boolean =>
  overlong === "mask" && isTruncated(conversation);

const maskOf = (algorithm: AlgorithmConfig, conversation: Conversation): { masked?: true } =>
  isMasked(algorithm, conversation) ? { masked: true } : {};

/** The rewards of a conversation's turns, if the algorithm uses them for the agent. Throws as `requireTurnRewards` does. */
function turnRewardsOf(
  config: ScoreConfig,
  agent: string,
  verdict: Verdict,
  conversation: Conversation,
): Pick<ScoredInvocation, "turns"> {
  const turns = requireTurnRewards(config, agent, verdict, conversation);
  return turns ? { turns: turns.map((reward) => reward && Number(reward.toFixed(6))) } : {};
}

/** Whether a verdict on a sub-agent's work changes a reward: `subReward` gives it a weight, or its rewards of turns are used. */
export function usesExpert({ agents, algorithm }: ScoreConfig, agent: string): boolean {
  const { subReward, turnWeight } = algorithmOf({ algorithm, agents }, agent);
  return subReward.expert !== 0 || (turnWeight > 0 && agents[agent]?.trained === true);
}

/**
 * The verdict's rewards of the conversation's turns. Undefined if nothing uses them: the agent has no `turnWeight`, is not trained, or the
 * conversation is not well-formed and so not judged. Throws `rewards-invalid` if the verdict does not have an entry for each turn:
 * `turnWeight` would silently have no effect.
 */
export function requireTurnRewards(
  config: ScoreConfig,
  agent: string,
  { turns }: Verdict,
  conversation: Conversation,
): Verdict["turns"] {
  const { turnWeight } = algorithmOf(config, agent);
  if (turnWeight === 0 || !config.agents[agent]?.trained || !isWellFormed(conversation)) return undefined;
  const count = conversation.turns.length;
  if (turns?.length === count) return turns;
  const given = turns ? `rewards ${turns.length} turns of ${count}` : "rewards no turns";
  const method = agent === config.main ? "correct" : "expert";
  const message = `the verdict on '${agent}' ${given}, and turnWeight is ${turnWeight}: return { score, turns } from ${method}() of the recipe's rewards, with a number from 0 to 1 or null per turn, or set turnWeight to 0`;
  throw new MgrpoError("rewards-invalid", message);
}

/** The first inconsistency between an outcome, its invocations and its step's plan. Undefined if they are consistent. */
export function validateOutcome(
  address: RolloutAddress,
  step: Pick<StepRecord, "groups" | "policy">,
  main: string,
  outcome: FinishedOutcome,
  invocations: readonly Invocation[],
): string | undefined {
  const questionId = step.groups[address.group];
  if (!isSameRollout(outcome.address, address)) return `its outcome belongs to ${JSON.stringify(outcome.address)}`;
  if (outcome.questionId !== questionId) return `its question is ${outcome.questionId}, but ${questionId} was planned`;
  const parts = [
    ...mainTrajectories(outcome).map((trajectory) => ({ agent: main, trajectory })),
    ...invocations.map(({ request, trajectory }) => ({ agent: request.agent, trajectory })),
  ];
  for (const { agent, trajectory } of parts) {
    if (trajectory.agent !== agent) return `a trajectory of ${agent} names agent ${trajectory.agent}`;
    if (trajectory.version !== step.policy[agent]) {
      return `${agent} sampled from version ${trajectory.version}, but ${step.policy[agent]} was planned`;
    }
  }
  const stray = invocations.find(({ request }) => !isSameRollout(request.address, address));
  if (stray) return `invocation ${stray.id} belongs to ${JSON.stringify(stray.request.address)}`;
  return validateCallers(invocations);
}

/**
 * The first violation of: every invocation that a sub-agent made is named in its caller's record, and every invocation that a record names is in
 * the outcome. Undefined if there is none.
 */
function validateCallers(invocations: readonly Invocation[]): string | undefined {
  const byPath = new Map(invocations.map((one) => [callPathOf(one.request).join("/"), one]));
  const ids = new Set(invocations.map(({ id }) => id));
  for (const { id, request, invocations: below = [] } of invocations) {
    const lost = below.find((ref) => !ids.has(ref.id));
    if (lost) return `invocation ${id} names ${lost.id}, which the outcome does not`;
    const caller = request.callers && byPath.get(request.callers.join("/"));
    if (request.callers && !caller?.invocations?.some((ref) => ref.id === id))
      return `no caller names invocation ${id}`;
  }
  return undefined;
}

function isSameRollout(a: RolloutAddress, b: RolloutAddress): boolean {
  return a.run === b.run && a.phase === b.phase && a.step === b.step && a.group === b.group && a.rollout === b.rollout;
}

/** Whether every planned rollout is scored or lost, so that the group can be finalized. */
export function isComplete(group: GroupRecord): boolean {
  return Object.keys(group.rollouts).length >= group.rolloutsPerQuestion;
}
