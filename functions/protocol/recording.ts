/**
 * @file Writes scores into their GROUP. Those that come while a write of the same group is under way share the next one: at the end of
 * a step, when all rollouts end at once, a group is written two or three times and not once per rollout.
 */
import type { RolloutScore } from "../../core/contracts/records.ts";
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import type { Table, TableItem } from "../../core/ports.ts";
import { recordScores } from "../../core/training/writes.ts";

type GroupAddress = Pick<RolloutAddress, "run" | "step" | "group">;

/**
 * Resolves once the score is recorded, this one or an earlier one of the same rollout. One of the callers that shared a write gets
 * the item, and looks whether the group is complete.
 */
export type ScoreRecorder = (
  address: GroupAddress,
  rollout: number,
  score: RolloutScore,
) => Promise<TableItem | undefined>;

export function openScoreRecorder(table: Table): ScoreRecorder {
  const next = new Map<string, { scores: Map<number, RolloutScore>; written: Promise<unknown> }>();
  const last = new Map<string, Promise<unknown>>();

  return async ({ run, step, group }, rollout, score) => {
    const name = `${run}/${step}/${group}`;
    const shared = next.get(name);
    if (shared) {
      if (!shared.scores.has(rollout)) shared.scores.set(rollout, score);
      await shared.written;
      return undefined;
    }
    const scores = new Map([[rollout, score]]);
    const write = () => {
      next.delete(name);
      return writeScores(table, { run, step, group }, scores);
    };
    const written = (last.get(name) ?? Promise.resolve()).then(write, write);
    next.set(name, { scores, written });
    last.set(name, written);
    return written.finally(() => {
      if (last.get(name) === written) last.delete(name);
    });
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
