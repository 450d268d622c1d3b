/**
 * @file The scores in progress in this process: no outcome is scored twice at the same time, and scores of a group that arrive together share
 * a write.
 */
import pLimit, { type LimitFunction } from "p-limit";
import type { RunConfig } from "../core/contracts/config.ts";
import type { RolloutScore } from "../core/contracts/records.ts";
import type { RolloutAddress } from "../core/contracts/rollout.ts";
import type { Table, TableItem } from "../core/ports.ts";
import { recordScores, splitIntoWrites } from "../core/training/writes.ts";

/** How many outcomes of one run are scored at once at the request of ticks. Most of the time, they wait for a judge. */
const PARALLEL_SCORES_PER_RUN = 32;

/** The longest that an outcome may wait for one of its run's slots while a judge hangs: each request before it lasts until its deadline. */
export function longestQueueSeconds(config: RunConfig): number {
  const rollouts = config.questionsPerStep * config.rolloutsPerQuestion * (config.staleness + 1);
  return Math.ceil(rollouts / PARALLEL_SCORES_PER_RUN) * config.limits.verdictSeconds;
}

export type ScoreOutcome = (key: string) => Promise<void>;

/**
 * Scores outcomes. A tick requests scores for outcomes whose event was lost or whose judge failed, and does not wait: a judge may take minutes.
 *
 *     event ──> now ──┐
 *                     ├──> scored; anyone who asks meanwhile gets the same promise
 *     tick ──> later ─┘    waits for one of its run's free slots
 */
export class ScoringQueue {
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

  /** The error of the first tick request of this run that failed since the last call; undefined if none did. */
  takeFailure(run: string): unknown {
    const failure = this.#failures.get(run);
    this.#failures.delete(run);
    return failure;
  }

  /** Resolves when no tick's request is pending. */
  async idle(): Promise<void> {
    while (this.#requested.size > 0) await Promise.all(this.#requested.values());
  }
}

type GroupAddress = Pick<RolloutAddress, "run" | "step" | "group">;

/** A write that has not begun, and the scores it will carry. */
interface PendingWrite {
  readonly scores: Map<number, RolloutScore>;
  readonly written: Promise<TableItem | undefined>;
}

/**
 * Writes scores into their GROUP. Scores that arrive while their group is being written share its next write: when all rollouts of a step
 * end together, a group is written two or three times instead of once per rollout.
 */
export class ScoreRecorder {
  readonly #table: Table;
  /** By group: the write that has not begun, and the last one that was queued, begun or not. */
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

/** Writes the scores that the group does not have yet. Returns the item afterwards. Once the group is no longer open, nothing is written. */
async function writeScores(
  table: Table,
  address: GroupAddress,
  scores: Map<number, RolloutScore>,
): Promise<TableItem | undefined> {
  for (;;) {
    const [part = []] = splitIntoWrites([...scores]);
    const { item } = await table.update(recordScores(address, new Map(part)));
    if (item?.["state"] !== "open") return item;
    for (const rollout of Object.keys(item["rollouts"] ?? {})) scores.delete(Number(rollout));
    if (scores.size === 0) return item;
  }
}
