/** @file Bounded caches of what no longer changes: objects and plans by key, and finalized groups by step. */
import type { GroupRecord } from "../core/contracts/records.ts";
import { sum } from "../core/statistics.ts";

/** Caches what `load` returns, except missing values and failures. Evicts the oldest entry first. */
export function memo<T>(
  limit: number,
  load: (key: string) => Promise<T | undefined>,
): (key: string) => Promise<T | undefined> {
  const entries = new Map<string, Promise<T | undefined>>();
  return (key) => {
    const cached = entries.get(key);
    if (cached) return cached;
    const loading = load(key).then(
      (value) => {
        if (value === undefined) entries.delete(key);
        return value;
      },
      (error: unknown) => {
        entries.delete(key);
        throw error;
      },
    );
    entries.set(key, loading);
    evictOldest(entries, limit);
    return loading;
  };
}

/** Deletes entries in insertion order until `limit` are left. */
export function evictOldest(entries: Map<string, unknown>, limit: number): void {
  for (const oldest of entries.keys()) {
    if (entries.size <= limit) return;
    entries.delete(oldest);
  }
}

/** A tick reads the steps in flight, at most 17, and the LOST_ROLLOUTS_WINDOW - 1 before each; a cloud has several runs. */
const MAX_STEPS = 50;
const MAX_GROUPS = 5000;
/**
 * Scored rollouts and invocations, which take some 250 bytes each. A group may have a few thousand of them: 5,000 such groups would not fit
 * in a function's memory.
 */
const MAX_SCORES = 500_000;

interface CachedStep {
  /** By index. */
  readonly groups: Map<number, GroupRecord>;
  scores: number;
}

/** Keeps the groups of the steps that were added last. */
export class FinalizedGroups {
  /** By `run/step`, in the order in which each step's first group was added. */
  readonly #steps = new Map<string, CachedStep>();

  get(run: string, step: number, group: number): GroupRecord | undefined {
    return this.#steps.get(`${run}/${step}`)?.groups.get(group);
  }

  /** Evicts the oldest steps, but not this one: otherwise every read of a large step would fetch all its groups again. */
  add(record: GroupRecord): void {
    const name = `${record.run}/${record.step}`;
    const step = this.#steps.get(name) ?? { groups: new Map(), scores: 0 };
    const replaced = step.groups.get(record.group);
    step.groups.set(record.group, record);
    step.scores += scoresIn(record) - (replaced ? scoresIn(replaced) : 0);
    this.#steps.set(name, step);
    for (const oldest of this.#steps.keys()) {
      if (this.#isWithinLimits()) return;
      if (oldest !== name) this.#steps.delete(oldest);
    }
  }

  #isWithinLimits(): boolean {
    const steps = [...this.#steps.values()];
    return (
      steps.length <= MAX_STEPS &&
      sum(steps.map(({ groups }) => groups.size)) <= MAX_GROUPS &&
      sum(steps.map(({ scores }) => scores)) <= MAX_SCORES
    );
  }
}

function scoresIn({ rollouts }: GroupRecord): number {
  const ofRollout = (score: GroupRecord["rollouts"][string]) =>
    "excluded" in score ? 1 : 1 + sum(Object.values(score.invocations).map(({ length }) => length));
  return sum(Object.values(rollouts).map(ofRollout));
}
