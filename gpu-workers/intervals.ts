/** @file Intervals of time in order, at most MOST of them: beyond that, those with the shortest gaps between them become one. */
import type { BusyInterval } from "../core/contracts/telemetry.ts";

/** More than a timeline shows. */
export const MOST = 1024;

export class Intervals {
  #kept: BusyInterval[] = [];

  /** Not earlier than the interval before. One that begins where that ends continues it. */
  add([start, end]: BusyInterval): void {
    const last = this.#kept.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(end, last[1]);
    else this.#kept.push([start, end]);
    if (this.#kept.length > MOST) this.#kept = joined(this.#kept);
  }

  /** Those since the last call. */
  take(): BusyInterval[] {
    const taken = this.#kept;
    this.#kept = [];
    return taken;
  }
}

/** Half as many: joins across the gaps that are not longer than the median gap. */
function joined(intervals: readonly BusyInterval[]): BusyInterval[] {
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
