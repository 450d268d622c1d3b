/**
 * @file The order in which an evaluation runs its rollouts, so that one that crashes its worker is found and abandoned.
 *
 *     suspect ──alone, before the others──> scored        a crash counts against it (core/training/evaluation-suspects.ts)
 *        '──crashed too often──> abandoned
 *     other   ──alongside others──> scored                a crash makes suspects of what was in flight
 */
import { withAnySignal } from "../../core/any-signal.ts";
import { nameInJob } from "../../core/training/evaluation-suspects.ts";
import { inParallel } from "../parallel.ts";

/** Names of the rollouts in flight. A rollout that fails stays listed, and so do those that its failure cancels. */
export class RolloutsInFlight {
  readonly #record: ((names: readonly string[]) => Promise<void>) | undefined;
  readonly #names = new Set<string>();
  /** One write at a time: each has all names, so the last must arrive last. Rollouts that start together share one. */
  #recorded = Promise.resolve();
  #written: string | undefined;

  /**
   * @param record called with all names before each rollout starts and after the last has succeeded, unless it was last called with the same
   * names. Absent: nobody else needs to know.
   */
  constructor(record?: (names: readonly string[]) => Promise<void>) {
    this.#record = record;
  }

  get names(): readonly string[] {
    return [...this.#names];
  }

  async during<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#names.add(name);
    await this.record();
    const result = await work();
    this.#names.delete(name);
    return result;
  }

  async record(): Promise<void> {
    const record = this.#record;
    if (!record) return;
    this.#recorded = this.#recorded.then(async () => {
      const { names } = this;
      if (names.join() === this.#written) return;
      await record(names);
      this.#written = names.join();
    });
    await this.#recorded;
  }
}

export interface CrashHistory {
  /** Name -> crashes while it ran alone. */
  readonly suspects: Readonly<Record<string, number>>;
  /** Number of crashes, while it ran alone, after which a rollout is abandoned. */
  readonly limit: number;
  readonly inFlight: RolloutsInFlight;
}

export interface RolloutSteps<R, S> {
  run(rollout: R, signal: AbortSignal): Promise<S>;
  abandon(rollout: R, crashes: number): Promise<S>;
}

/** The results, in the order of the rollouts. Rejects with the first failure. */
export async function suspectsFirst<R extends { readonly group: number; readonly rollout: number }, S extends object>(
  rollouts: readonly R[],
  width: number,
  { suspects, limit, inFlight }: CrashHistory,
  { run, abandon }: RolloutSteps<R, S>,
  signal: AbortSignal,
): Promise<S[]> {
  const alone = new Map<R, S>();
  for (const rollout of rollouts) {
    const name = nameInJob(rollout);
    const crashes = suspects[name];
    if (crashes === undefined) continue;
    const result = crashes < limit ? inFlight.during(name, () => run(rollout, signal)) : abandon(rollout, crashes);
    alone.set(rollout, await result);
  }
  const results = await inParallel(rollouts, width, async (rollout, _index, failed) => {
    const attempt = () => withAnySignal([signal, failed], (either) => run(rollout, either));
    return alone.get(rollout) ?? inFlight.during(nameInJob(rollout), attempt);
  });
  await inFlight.record();
  return results;
}
