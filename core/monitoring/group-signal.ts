/** @file Why an agent learns nothing from a group, from the group's record alone. */
import type { AgentBatch, GroupRecord, ScoredRollout } from "../contracts/records.ts";
import { hasSignal } from "../mgrpo/batch.ts";

/** One phrase; undefined if the agent learns from the group. */
export function whyNoSignal(group: GroupRecord, agent: string, main: string): string | undefined {
  const scores = Object.values(group.rollouts);
  const counted = scores.filter((score): score is ScoredRollout => !("excluded" in score));
  const batch = group.finalized[agent];
  if (group.state === "open") return `${scores.length} of ${group.rolloutsPerQuestion} rollouts are scored`;
  if (counted.length === 0) return "every rollout was lost";
  if (hasSignal(batch)) return undefined;
  if (counted.length === 1) return "one rollout is left of the group";
  return agent === main ? sameMainReward(counted) : sameSubReward(counted, agent, batch);
}

function sameMainReward(counted: readonly ScoredRollout[]): string {
  if (counted.every(({ masked }) => masked)) return "every rollout was truncated and is masked";
  if (counted.every(({ wellFormed }) => !wellFormed)) return "every rollout is malformed";
  if (counted.every(({ correct }) => correct === 1)) return "every rollout is correct";
  if (counted.every(({ correct }) => correct === 0)) return "every rollout is wrong";
  return `every rollout has reward ${counted[0]?.reward.toFixed(3)}`;
}

/** Invocations that led to a masked one, or that alignment dropped, do not count: their rewards may differ. */
function sameSubReward(counted: readonly ScoredRollout[], agent: string, batch: AgentBatch | undefined): string {
  const callers = counted.filter((score) => (score.invocations[agent] ?? []).length > 0);
  const invocations = callers.flatMap((score) => score.invocations[agent] ?? []);
  if (invocations.length === 0) return "no rollout called it";
  if (!batch) return "every invocation is masked or was dropped by alignment";
  const differs = invocations.some(({ reward }) => reward !== invocations[0]?.reward);
  if (callers.length === 1 && differs) return "only one rollout called it";
  return `every invocation${differs ? " that counts" : ""} has reward ${batch.mean.toFixed(3)}`;
}
