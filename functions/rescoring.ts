/**
 * @file Scores outcomes in this process, never one twice at once. A tick requests scores for outcomes whose event was lost, and does not
 * wait: a judge may take minutes.
 *
 *     event ──> now ──┐
 *                     ├──> scored; anyone who asks meanwhile gets the same promise
 *     tick ──> later ─┘    waits for one of its run's free slots
 */
import pLimit, { type LimitFunction } from "p-limit";

/** Limit on one run's outcomes that are scored concurrently at ticks' request. Most of the time they wait for a judge. */
const PARALLEL_SCORES_PER_RUN = 32;

export type ScoreOutcome = (key: string) => Promise<void>;

export class Rescoring {
  #score: ScoreOutcome = () => Promise.reject(new Error("the functions are not open"));
  /** By outcome key. */
  readonly #underWay = new Map<string, Promise<void>>();
  /** Requests of ticks, by outcome key. */
  readonly #requested = new Map<string, Promise<void>>();
  /** By run; absent while a run has no requests. */
  readonly #limits = new Map<string, LimitFunction>();
  /** By run: the first failure since a tick last took it. */
  readonly #failures = new Map<string, unknown>();

  open(score: ScoreOutcome): void {
    this.#score = score;
  }

  now(key: string): Promise<void> {
    const current = this.#underWay.get(key);
    if (current) return current;
    const scored = this.#score(key).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, scored);
    return scored;
  }

  later(run: string, key: string): void {
    if (this.#underWay.has(key) || this.#requested.has(key)) return;
    const limit = this.#limits.get(run) ?? pLimit(PARALLEL_SCORES_PER_RUN);
    this.#limits.set(run, limit);
    const scored = limit(() => this.now(key))
      .catch((error: unknown) => {
        if (!this.#failures.has(run)) this.#failures.set(run, error);
      })
      .finally(() => {
        this.#requested.delete(key);
        if (limit.activeCount + limit.pendingCount === 0) this.#limits.delete(run);
      });
    this.#requested.set(key, scored);
  }

  /** Why a request of an earlier tick of this run failed. */
  takeFailure(run: string): unknown {
    const failure = this.#failures.get(run);
    this.#failures.delete(run);
    return failure;
  }

  /** Resolves when no request is left. */
  async idle(): Promise<void> {
    while (this.#requested.size > 0) await Promise.all(this.#requested.values());
  }
}
