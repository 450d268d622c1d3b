/** @file Why an agent learns nothing from a group, from the group's record alone. */
import type { GroupRecord, ScoredRollout } from "../contracts/records.ts";
import { hasSignal } from "../mgrpo/batch.ts";

/** One phrase; undefined if the agent learns from the group. */
export function whyNoSignal(group: GroupRecord, agent: string, main: string): string | undefined {
  const scores = Object.values(group.rollouts);
  const counted = scores.filter((score): score is ScoredRollout => !("excluded" in score));
  if (group.state === "open") return `${scores.length} of ${group.rolloutsPerQuestion} rollouts are scored`;
  if (counted.length === 0) return "every rollout was lost";
  if (hasSignal(group.finalized[agent])) return undefined;
  return agent === main ? sameMainReward(counted) : sameSubReward(counted, agent);
}

function sameMainReward(counted: readonly ScoredRollout[]): string {
  if (counted.length === 1) return "one rollout is left of the group";
  if (counted.every(({ wellFormed }) => !wellFormed)) return "every rollout is malformed";
  if (counted.every(({ correct }) => correct === 1)) return "every rollout is correct";
  if (counted.every(({ correct }) => correct === 0)) return "every rollout is wrong";
  return `every rollout has reward ${counted[0]?.reward.toFixed(3)}`;
}

function sameSubReward(counted: readonly ScoredRollout[], agent: string): string {
  const callers = counted.filter((score) => (score.invocations[agent] ?? []).length > 0);
  const invocations = callers.flatMap((score) => score.invocations[agent] ?? []);
  if (invocations.length === 0) return "no rollout called it";
  const differs = invocations.some(({ reward }) => reward !== invocations[0]?.reward);
  if (callers.length === 1 && differs) return "only one rollout called it";
  return `every invocation has reward ${invocations[0]?.reward.toFixed(3)}`;
}
