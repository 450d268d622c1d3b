/** @file Why an agent learns nothing from a group, from the group's record alone. */
import type { AgentBatch, GroupRecord, ScoredRollout } from "../contracts/records.ts";
import { hasSignal } from "../mgrpo/batch.ts";
import { callsWithKnownReward } from "../mgrpo/finalize.ts";

/** One phrase; undefined if the agent learns from the group. */
export function whyNoSignal(group: GroupRecord, agent: string, main: string): string | undefined {
  const scores = Object.values(group.rollouts);
  const counted = scores.filter((score): score is ScoredRollout => !("excluded" in score));
  const batch = group.finalized[agent];
  if (group.state === "open") return `${scores.length} of ${group.rolloutsPerQuestion} rollouts are scored`;
  if (counted.length === 0) return "every rollout was lost";
  if (hasSignal(batch)) return undefined;
  if (counted.length === 1) return "only one rollout of the group is left";
  return agent === main ? sameMainReward(counted, batch) : sameSubReward(counted, agent, batch);
}

/** Masked rollouts count in the baseline, so that rewards may differ though every advantage in the batch is 0. */
function sameMainReward(counted: readonly ScoredRollout[], batch: AgentBatch | undefined): string {
  if (!batch) return "every rollout was truncated and is masked";
  if (batch.std > 0) return "only masked rollouts have an advantage other than 0";
  if (counted.every(({ wellFormed }) => !wellFormed)) return "every rollout is malformed";
  if (counted.every(({ correct }) => correct === 1)) return "every rollout is correct";
  if (counted.every(({ correct }) => correct === 0)) return "every rollout is wrong";
  return `every rollout has reward ${counted[0]?.reward.toFixed(3)}`;
}

/** Invocations below a masked conversation, and those that alignment dropped, do not count: their rewards may differ. A masked one itself counts. */
function sameSubReward(counted: readonly ScoredRollout[], agent: string, batch: AgentBatch | undefined): string {
  const calls_K = counted.map(({ invocations }) => invocations[agent] ?? []);
  const invocations = calls_K.flat();
  if (invocations.length === 0) return "no rollout called it";
  if (!batch) return "every invocation is masked or was dropped by alignment";
  if (batch.std > 0) {
    const countedCallers = counted.filter((score) => callsWithKnownReward(score, agent).length > 0).length;
    if (countedCallers > 1) return "only masked invocations have an advantage other than 0";
    // Under `baseline: leave-one-out`, rewards that all come from one rollout have nothing to be compared with.
    const callers = calls_K.filter(({ length }) => length > 0).length;
    return callers === 1 ? "only one rollout called it" : "the invocations of only one rollout count";
  }
  const differs = invocations.some(({ reward }) => reward !== invocations[0]?.reward);
  return `every invocation${differs ? " that counts" : ""} has reward ${batch.mean.toFixed(3)}`;
}
