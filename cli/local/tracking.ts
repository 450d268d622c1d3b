/**
 * @file Sends a run's metrics to its trackers while it trains. An unreachable tracker does not delay training, misses no metrics, and is
 * reported once.
 *
 *     metrics.jsonl ──lines after the position──> tracker ──done──> position, in trackers.json
 *                            └──failed──> waits for: a pause that doubles up to a minute     unblocked by: time, the run's end
 *
 * What is unsent at the end is sent by `mgrpo track <run>`, or when the run is resumed. Only one process at a time sends a run's metrics.
 */
import { existsSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { lockDirectory } from "../../adapters/local-cloud/lock.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { MetricLine } from "../../core/monitoring/metrics.ts";
import type { Tracker } from "../../core/tracker.ts";
import { sha256 } from "../../engine/hash.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { withUserCommand } from "../terminal/fail.ts";
import { fileFault } from "../terminal/file-fault.ts";
import { parseDerived, type RunFolder } from "./run-folder.ts";
import { writeAtomically } from "./written-files.ts";

/** `keyOf(tracker)` -> number of lines of metrics.jsonl that it has. */
const Positions = z.record(z.string(), z.int().nonnegative());
type Positions = z.infer<typeof Positions>;

const RESEND = "remove this file, and repeat the command: the trackers then get every metric again";
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 60;
/** How long the end of a run waits for its trackers. */
const FINISH_SECONDS = 10;

/**
 * Makes this process the only one that sends the run's metrics, until it calls the function that is returned, or ends. Rejects with
 * `tracker-unavailable` while another process sends them. `instead`: what the user can do then, other than waiting or stopping that process.
 */
export const lockTrackers = ({ trackersLock }: RunFolder, instead: string): Promise<() => Promise<void>> =>
  lockDirectory(trackersLock, { code: "tracker-unavailable", instead });

/** Positions count the lines of metrics.jsonl, so they are removed if it is gone. Call before opening it: it may be recreated in another order. */
export function removeStalePositions({ metrics, trackers }: RunFolder): void {
  if (!existsSync(metrics)) rmSync(trackers, { force: true });
}

export interface TrackingOptions {
  readonly trackers: readonly Tracker[];
  readonly lines: readonly MetricLine[];
  /** Where the positions are kept. */
  readonly positions: string;
  /** Called at a tracker's first failure. `isRetried`: while the run trains; `finish` tries only once. */
  readonly warn: Warn;
}

type Warn = (reason: string, isRetried: boolean) => void;

export class Tracking {
  readonly #feeds: readonly Feed[];

  constructor({ trackers, lines, positions, warn }: TrackingOptions) {
    const known = existsSync(positions) ? parseDerived(Positions, positions, RESEND) : {};
    const save = () => writeAtomically(positions, `${JSON.stringify(known)}\n`);
    this.#feeds = trackers.map((tracker) => new Feed(tracker, lines, known, save, warn));
  }

  /** Call when there are new lines. */
  wake(): void {
    for (const feed of this.#feeds) feed.wake();
  }

  /**
   * Sends what is left. `status`: how the run ended; undefined if it continues later. `limit` ends the sending; default: after ten seconds.
   * Returns the names of the trackers that lack lines, do not know how the run ended, or whose position could not be saved.
   */
  async finish(
    status: "finished" | "failed" | undefined,
    limit = AbortSignal.timeout(FINISH_SECONDS * 1000),
  ): Promise<string[]> {
    const complete = await Promise.all(this.#feeds.map((feed) => feed.finish(status, limit)));
    return this.#feeds.filter((_, i) => !complete[i]).map(({ name }) => name);
  }
}

/** The destination is hashed, since an address may hold a key. */
function keyOf({ name, destination }: Tracker): string {
  if (destination === undefined) return name;
  return `${name} ${sha256(destination).slice(0, 16)}`;
}

/** Sends the lines to one tracker. */
class Feed {
  readonly name: string;
  readonly #tracker: Tracker;
  /** The key of its position. */
  readonly #key: string;
  readonly #lines: readonly MetricLine[];
  readonly #positions: Positions;
  readonly #save: () => void;
  readonly #warn: Warn;
  readonly #stop = new AbortController();
  #sending: Promise<void> | undefined;
  #hasFailed = false;

  constructor(tracker: Tracker, lines: readonly MetricLine[], positions: Positions, save: () => void, warn: Warn) {
    this.name = tracker.name;
    this.#tracker = tracker;
    this.#key = keyOf(tracker);
    this.#lines = lines;
    this.#positions = positions;
    this.#save = save;
    this.#warn = warn;
    // TensorBoard's file is rewritten from its start; a deleted metrics.jsonl starts over.
    if (tracker.startsOver || this.#sent > lines.length) positions[this.#key] = 0;
  }

  get #sent(): number {
    return this.#positions[this.#key] ?? 0;
  }

  wake(): void {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    for (let pause = FIRST_PAUSE_SECONDS; this.#sent < this.#lines.length; ) {
      try {
        await this.#sendNew(this.#stop.signal);
        pause = FIRST_PAUSE_SECONDS;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#report(error, true);
        await sleep(pause * 1000, undefined, { signal: this.#stop.signal, ref: false }).catch(() => {});
        if (this.#stop.signal.aborted) return;
        pause = Math.min(2 * pause, LONGEST_PAUSE_SECONDS);
      }
    }
  }

  async #sendNew(signal: AbortSignal): Promise<void> {
    const { linesAtOnce = this.#lines.length } = this.#tracker;
    const end = Math.min(this.#sent + linesAtOnce, this.#lines.length);
    await this.#tracker.send(this.#lines.slice(this.#sent, end), signal);
    this.#positions[this.#key] = end;
    this.#save();
  }

  #report(error: unknown, isRetried: boolean): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const known = fileFault(error);
    this.#warn(withUserCommand(stripControlCharacters(isMgrpoError(known) ? known.message : String(error))), isRetried);
  }

  /** Whether the tracker has all lines and knows how the run ended, and its position is saved. */
  async finish(status: "finished" | "failed" | undefined, limit: AbortSignal): Promise<boolean> {
    this.#stop.abort();
    await this.#sending;
    try {
      while (this.#sent < this.#lines.length) await this.#sendNew(limit);
      // The save after the last lines may have failed.
      this.#save();
      // Not the current time: the metrics of a run may be sent long after its end, and more than once.
      const endedAt = this.#lines.at(-1)?.time ?? Date.now();
      if (status !== undefined) await this.#tracker.finish(status, endedAt, limit);
      return true;
    } catch (error) {
      this.#report(error, false);
      return false;
    }
  }
}
