/**
 * @file A rollout's score, from what was committed and what the judges said (mgrpo.md, "Rewards"; eq 4 and 5). Also the checks
 * that make "finalized implies loadable" true: a rollout whose objects do not fit together is lost, never scored.
 */
import type { AlgorithmConfig } from "../contracts/config.ts";
import type { Conversation } from "../contracts/conversation.ts";
import { totalCost, type Verdict } from "../contracts/judge.ts";
import { digestOf, type Sha256 } from "../contracts/names.ts";
import type { GroupRecord, RolloutScore, StepRecord } from "../contracts/records.ts";
import { type FinishedOutcome, type Invocation, type RolloutAddress, sampledTokens } from "../contracts/rollout.ts";
import { mainReward, subReward } from "../mgrpo/reward.ts";

/** What judges said. `experts` is parallel to the invocations. */
export interface Verdicts {
  readonly correct: Verdict;
  readonly experts: readonly Verdict[];
}

/** Of what is malformed: nobody is asked. */
export const UNJUDGED: Verdict = { score: 0 };

export const isWellFormed = (conversation: Conversation) => conversation.stop === "answered";

const isTruncated = ({ stop }: Conversation) => stop === "turn-limit" || stop === "token-limit";

/** R_M (eq 4) and each R_S (eq 5), by sub-agent in call order. `outcomeSha256` is of the object that was judged. */
export function scoreRollout(
  algorithm: AlgorithmConfig,
  outcome: FinishedOutcome,
  invocations: readonly Invocation[],
  verdicts: Verdicts,
  outcomeSha256: Sha256,
): RolloutScore {
  const mask = (conversation: Conversation) =>
    algorithm.overlong === "mask" && isTruncated(conversation) ? ({ masked: true } as const) : {};
  const wellFormed = isWellFormed(outcome.conversation);
  const judged = totalCost([verdicts.correct, ...verdicts.experts].flatMap(({ cost }) => cost ?? []));
  const byAgent: Extract<RolloutScore, { reward: number }>["invocations"] = {};
  const scored = invocations.map((invocation, i) => ({
    invocation,
    expert: verdicts.experts[i]?.score ?? 0,
    digest: digestOf(outcome.invocations[i]?.sha256 ?? ""),
  }));
  for (const { invocation, expert, digest } of scored.toSorted(
    (a, b) => a.invocation.request.call - b.invocation.request.call,
  )) {
    const { id, request, conversation } = invocation;
    const reward = subReward(isWellFormed(conversation), verdicts.correct.score, expert, algorithm.subReward);
    byAgent[request.agent] = [...(byAgent[request.agent] ?? []), { id, reward, expert, digest, ...mask(conversation) }];
  }
  return {
    reward: mainReward(wellFormed, verdicts.correct.score, algorithm.mainReward),
    correct: verdicts.correct.score,
    wellFormed,
    tokens: [outcome, ...invocations].reduce((sum, { trajectory }) => sum + sampledTokens(trajectory), 0),
    digest: digestOf(outcomeSha256),
    invocations: byAgent,
    ...(judged && { judged }),
    ...mask(outcome.conversation),
  };
}

/** What does not fit between an outcome, its invocations and the plan of its step; undefined when all does. */
export function validateOutcome(
  address: RolloutAddress,
  step: Pick<StepRecord, "groups" | "policy">,
  main: string,
  outcome: FinishedOutcome,
  invocations: readonly Invocation[],
): string | undefined {
  const questionId = step.groups[address.group];
  if (!isSameRollout(outcome.address, address)) return `its outcome is of ${JSON.stringify(outcome.address)}`;
  if (outcome.questionId !== questionId) return `its question is ${outcome.questionId}, planned ${questionId}`;
  const parts = [
    { agent: main, trajectory: outcome.trajectory },
    ...invocations.map(({ request, trajectory }) => ({ agent: request.agent, trajectory })),
  ];
  for (const { agent, trajectory } of parts) {
    if (trajectory.agent !== agent) return `a trajectory of ${agent} says it is ${trajectory.agent}'s`;
    if (trajectory.version !== step.policy[agent]) {
      return `${agent} sampled from version ${trajectory.version}, planned ${step.policy[agent]}`;
    }
  }
  const stray = invocations.find(({ request }) => !isSameRollout(request.address, address));
  return stray && `invocation ${stray.id} belongs to ${JSON.stringify(stray.request.address)}`;
}

function isSameRollout(a: RolloutAddress, b: RolloutAddress): boolean {
  return a.run === b.run && a.phase === b.phase && a.step === b.step && a.group === b.group && a.rollout === b.rollout;
}

/** Every planned rollout has a score: the group can be finalized. */
export function isComplete(group: GroupRecord): boolean {
  return Object.keys(group.rollouts).length >= group.rolloutsPerQuestion;
}
