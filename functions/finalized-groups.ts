/** @file A bounded cache of finalized groups, which never change. Those of the steps that were cached last are kept. */
import type { GroupRecord } from "../core/contracts/records.ts";
import { sum } from "../core/statistics.ts";

/** A tick reads the steps in flight, at most 17, and the LOST_ROLLOUTS_WINDOW - 1 before each; a cloud has several runs. */
const MAX_STEPS = 50;
const MAX_GROUPS = 5000;

export class FinalizedGroups {
  /** By `run/step`, then by index, in the order of each step's first group. */
  readonly #steps = new Map<string, Map<number, GroupRecord>>();

  get(run: string, step: number, group: number): GroupRecord | undefined {
    return this.#steps.get(`${run}/${step}`)?.get(group);
  }

  /** Evicts the oldest steps, but not this one: otherwise every read of a large step would fetch all its groups again. */
  add(record: GroupRecord): void {
    const name = `${record.run}/${record.step}`;
    const groups = this.#steps.get(name) ?? new Map<number, GroupRecord>();
    groups.set(record.group, record);
    this.#steps.set(name, groups);
    for (const oldest of this.#steps.keys()) {
      if (this.#steps.size <= MAX_STEPS && this.#count() <= MAX_GROUPS) return;
      if (oldest !== name) this.#steps.delete(oldest);
    }
  }

  #count(): number {
    return sum([...this.#steps.values()].map(({ size }) => size));
  }
}
