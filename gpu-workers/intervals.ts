/** @file Intervals of time in order, at most MAX_INTERVALS of them: beyond that, neighbors with the shortest gaps between them are merged. */
import type { BusyInterval } from "../core/contracts/telemetry.ts";

/** More than a timeline shows. */
export const MAX_INTERVALS = 1024;

export class Intervals {
  #kept: BusyInterval[] = [];

  /** Add intervals in order of time. An interval that begins before the last one ends, or where it ends, extends it. */
  add([start, end]: BusyInterval): void {
    const last = this.#kept.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(end, last[1]);
    else this.#kept.push([start, end]);
    if (this.#kept.length > MAX_INTERVALS) this.#kept = merged(this.#kept);
  }

  /** The intervals added since the last call. */
  take(): BusyInterval[] {
    const taken = this.#kept;
    this.#kept = [];
    return taken;
  }
}

/** At most half as many: merges across every gap that is not longer than the median gap. */
function merged(intervals: readonly BusyInterval[]): BusyInterval[] {
  const gapBefore = (i: number) => (intervals[i]?.[0] ?? 0) - (intervals[i - 1]?.[1] ?? 0);
  const gaps = intervals.slice(1).map((_, i) => gapBefore(i + 1));
  const median = gaps.toSorted((a, b) => a - b)[Math.floor(gaps.length / 2)] ?? 0;
  const kept: BusyInterval[] = [];
  for (const [i, [start, end]] of intervals.entries()) {
    const last = kept.at(-1);
    if (last && gapBefore(i) <= median) last[1] = end;
    else kept.push([start, end]);
  }
  return kept;
}
