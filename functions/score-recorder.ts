/**
 * @file Writes scores into their GROUP. Scores that arrive while their group is being written share its next write: when all rollouts of a
 * step end together, a group is written two or three times instead of once per rollout.
 */
import type { RolloutScore } from "../core/contracts/records.ts";
import type { RolloutAddress } from "../core/contracts/rollout.ts";
import type { Table, TableItem } from "../core/ports.ts";
import { partsOfOneWrite, recordScores } from "../core/training/writes.ts";

type GroupAddress = Pick<RolloutAddress, "run" | "step" | "group">;

/** A write that has not begun, and the scores it will carry. */
interface PendingWrite {
  readonly scores: Map<number, RolloutScore>;
  readonly written: Promise<TableItem | undefined>;
}

export class ScoreRecorder {
  readonly #table: Table;
  /** Per group: the next write, and the last one that was queued. */
  readonly #next = new Map<string, PendingWrite>();
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(table: Table) {
    this.#table = table;
  }

  /**
   * Resolves once the rollout has a score: this one, or an earlier one. Exactly one of the callers that share a write gets the item, and
   * must check whether the group is complete.
   */
  async record(
    { run, step, group }: GroupAddress,
    rollout: number,
    score: RolloutScore,
  ): Promise<TableItem | undefined> {
    const name = `${run}/${step}/${group}`;
    const shared = this.#next.get(name);
    if (shared) {
      if (!shared.scores.has(rollout)) shared.scores.set(rollout, score);
      await shared.written;
      return undefined;
    }
    const scores = new Map([[rollout, score]]);
    const write = () => {
      this.#next.delete(name);
      return writeScores(this.#table, { run, step, group }, scores);
    };
    const written = (this.#last.get(name) ?? Promise.resolve()).then(write, write);
    this.#next.set(name, { scores, written });
    this.#last.set(name, written);
    return written.finally(() => {
      if (this.#last.get(name) === written) this.#last.delete(name);
    });
  }
}

/** Writes the scores that the group does not have yet. Returns the item after the write. */
async function writeScores(
  table: Table,
  address: GroupAddress,
  scores: Map<number, RolloutScore>,
): Promise<TableItem | undefined> {
  for (;;) {
    const [part = []] = partsOfOneWrite([...scores]);
    const { item } = await table.update(recordScores(address, new Map(part)));
    if (item?.["state"] !== "open") return item;
    for (const rollout of Object.keys(item["rollouts"] ?? {})) scores.delete(Number(rollout));
    if (scores.size === 0) return item;
  }
}
