/**
 * @file Writes scores into their GROUP, several in one write where they come close together: while a write of the group is under way,
 * and, where one process hears all events, within a quarter of a second. The last score of a group waits for no other.
 */
import type { RolloutScore } from "../../core/contracts/records.ts";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import type { Table, TableItem } from "../../core/ports.ts";
import { recordScores } from "../../core/training/writes.ts";
import { openBatches } from "./batches.ts";

type GroupAddress = Pick<RolloutAddress, "run" | "step" | "group">;

const GATHERING_MILLISECONDS = 250;

/**
 * Resolves once the score is recorded, this one or an earlier one of the same rollout. One of the callers that shared a write gets
 * the item, and looks whether the group is complete. `of`: rollouts of the group.
 */
export type ScoreRecorder = (
  address: GroupAddress,
  rollout: number,
  score: RolloutScore,
  of: number,
) => Promise<TableItem | undefined>;

export function openScoreRecorder(table: Table, { gathers = false } = {}): ScoreRecorder {
  const groups = new Map<string, { address: GroupAddress; held: number; of: number }>();
  const batches = openBatches<RolloutScore, TableItem | undefined>(write, gathers ? GATHERING_MILLISECONDS : 0);

  async function write(name: string, scores: Map<number, RolloutScore>) {
    const group = groups.get(name);
    if (!group) return undefined;
    const item = await writeScores(table, group.address, scores);
    group.held = Object.keys(item?.["rollouts"] ?? {}).length;
    if (group.held >= group.of) groups.delete(name);
    return item;
  }

  return ({ run, step, group }, rollout, score, of) => {
    const name = `${run}/${step}/${group}`;
    const { held } = groups.get(name) ?? { held: 0 };
    groups.set(name, { address: { run, step, group }, held, of });
    const recorded = batches.add(name, rollout, score);
    if (held + batches.size(name) >= of) batches.complete(name);
    return recorded;
  };
}

/** Writes those that are not there yet. */
async function writeScores(table: Table, address: GroupAddress, scores: Map<number, RolloutScore>) {
  for (;;) {
    const { applied, item } = await table.update(recordScores(address, scores));
    if (applied || item?.["state"] !== "open") return item;
    for (const rollout of Object.keys(item["rollouts"] ?? {})) scores.delete(Number(rollout));
    if (scores.size === 0) return item;
  }
}
