/**
 * @file score-rollout, step 5 of the protocol: an outcome -> one conditional update of its GROUP; whoever completes the group finalizes it.
 * Waits for: an outcome's event, or the clock finding it. A repeated or late call finds the score there and changes nothing.
 */
import type { GroupRecord, RolloutScore } from "../../core/contracts/records.ts";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import { isMgrpoError, type MgrpoError, refusalOf } from "../../core/errors.ts";
import { finalizeGroup } from "../../core/mgrpo/finalize.ts";
import type { TableItem } from "../../core/ports.ts";
import { expiryOf } from "../../core/training/retention.ts";
import { isComplete } from "../../core/training/score.ts";
import { countJudgeFailure, endRun, finalizeGroupRecord, judgeFailureKey } from "../../core/training/writes.ts";
import type { Context } from "../context.ts";
import { scoreOutcome } from "./outcome.ts";

/** True when this call finalized the group. */
export async function scoreAndFinalize(context: Context, address: RolloutAddress): Promise<boolean> {
  let score: RolloutScore;
  try {
    score = await scoreOutcome(context, address);
  } catch (error) {
    if (!isMgrpoError(error, "judge-failed", "rewards-invalid")) throw error;
    const refusal = refusalOf(error);
    if (refusal) return halt(context, address.run, refusal.message);
    score = { excluded: await giveUpJudging(context, address, error) };
  }
  const item = await context.recordScore(address, address.rollout, score);
  return item !== undefined && hasAllScores(item) && finalizeIfComplete(context, context.records.group(item));
}

/** Nothing is asked before somebody has mended that; then the clock finds the outcome. */
const halt = async ({ table }: Context, run: string, reason: string): Promise<false> =>
  table.update(endRun(run, "halted", reason)).then(() => false);

/** Looked at before the record is parsed: most updates do not complete their group. */
const hasAllScores = ({ rollouts, rolloutsPerQuestion }: TableItem): boolean =>
  Object.keys(rollouts ?? {}).length >= Number(rolloutsPerQuestion);

/** Also repairs a crash between the last score and the finalize. True when this call finalized it. */
export async function finalizeIfComplete(context: Context, group: GroupRecord): Promise<boolean> {
  if (group.state !== "open" || !isComplete(group)) return false;
  const { main, agents, algorithm, seed } = await context.facts.config(group.run);
  const subs = Object.keys(agents).filter((name) => name !== main);
  const finalized = finalizeGroup(group.rollouts, main, subs, algorithm, [seed, "alignment", group.step, group.group]);
  const expiresAt = expiryOf(await context.clock.storeTime());
  const result = await context.table.update(finalizeGroupRecord(group, finalized, expiresAt));
  if (result.item) context.records.group(result.item);
  return result.applied;
}

/** Counts the failure; throws it, to be tried again, until the attempts are spent. Then: the reason of the exclusion. */
async function giveUpJudging(context: Context, address: RolloutAddress, error: MgrpoError): Promise<string> {
  const { limits } = await context.facts.config(address.run);
  const group = await context.records.groupAt(address.run, address.step, address.group);
  const failures = group?.crashes[judgeFailureKey(address.rollout)] ?? 0;
  if (failures + 1 >= limits.attempts) return `judge: ${error.message} (${limits.attempts} attempts)`;
  await context.table.update(countJudgeFailure(address, address.rollout, failures));
  throw error;
}
