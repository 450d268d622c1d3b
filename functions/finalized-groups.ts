/** @file A bounded cache of finalized groups, which never change. Those of the steps that were cached last are kept. */
import type { GroupRecord } from "../core/contracts/records.ts";

/** A tick reads the steps in flight, at most 17, and the LOST_ROLLOUTS_WINDOW - 1 before each; a cloud has several runs. */
const MAX_STEPS = 50;
const MAX_GROUPS = 5000;

export class FinalizedGroups {
  /** By `run/step`, then by index, in the order of each step's first group. */
  readonly #steps = new Map<string, Map<number, GroupRecord>>();
  #size = 0;

  get(run: string, step: number, group: number): GroupRecord | undefined {
    return this.#steps.get(`${run}/${step}`)?.get(group);
  }

  /** Evicts the oldest steps, but not this one: otherwise every read of a large step would fetch all its groups again. */
  add(record: GroupRecord): void {
    const name = `${record.run}/${record.step}`;
    const groups = this.#steps.get(name) ?? new Map<number, GroupRecord>();
    this.#size += groups.has(record.group) ? 0 : 1;
    groups.set(record.group, record);
    this.#steps.set(name, groups);
    for (const [oldest, { size }] of this.#steps) {
      if (this.#steps.size <= MAX_STEPS && this.#size <= MAX_GROUPS) return;
      if (oldest === name) continue;
      this.#steps.delete(oldest);
      this.#size -= size;
    }
  }
}
