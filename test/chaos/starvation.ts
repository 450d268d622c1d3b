/**
 * @file How long the processes of a trial waited for a processor. Linux counts it for each thread, in the second number of
 * `/proc/<pid>/schedstat`: nanoseconds in which the thread was ready to run, but did not (Documentation/scheduler/sched-stats.rst). That
 * file is the main thread's. Elsewhere, nothing is measured.
 */
import { readFileSync } from "node:fs";

/** Of one process, between two readings. */
export interface Starvation {
  readonly process: string;
  /** When the period began and ended, in milliseconds since the trial began. */
  readonly from: number;
  readonly to: number;
  /** For how long the process was ready to run, but had no processor. */
  readonly seconds: number;
}

const READ_EVERY_MS = 1000;

/** @param pids of the processes that run now, by name. */
export class StarvationMeter {
  readonly #last = new Map<string, { readonly pid: number; readonly at: number; readonly waitedNs: number }>();
  readonly #timer: NodeJS.Timeout;
  readonly #pids: () => ReadonlyMap<string, number>;
  readonly #now: () => number;
  readonly #measured: Starvation[] = [];

  constructor(pids: () => ReadonlyMap<string, number>, now: () => number) {
    this.#pids = pids;
    this.#now = now;
    this.#timer = setInterval(() => this.#read(), READ_EVERY_MS).unref();
  }

  /** In order. Undefined where the system does not say. */
  measured(): readonly Starvation[] | undefined {
    return this.#last.size > 0 ? this.#measured : undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #read(): void {
    for (const [process, pid] of this.#pids()) {
      const waitedNs = waitedNanoseconds(pid);
      if (waitedNs === undefined) continue;
      const at = this.#now();
      const last = this.#last.get(process);
      this.#last.set(process, { pid, at, waitedNs });
      // A process that has been restarted counts from 0.
      const seconds = (waitedNs - (last?.pid === pid ? last.waitedNs : 0)) / 1e9;
      if (last && seconds > 0) this.#measured.push({ process, from: last.at, to: at, seconds });
    }
  }
}

/** Undefined where the system does not say, or if the process has ended. */
function waitedNanoseconds(pid: number): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]);
  } catch {
    return undefined;
  }
}

/** How long the process that waited longest for a processor did so in the periods that overlap the given one. */
export function starvedSeconds(measured: readonly Starvation[], fromMs: number, toMs: number): number {
  const seconds = new Map<string, number>();
  for (const { process, from, to, seconds: waited } of measured)
    if (from < toMs && to > fromMs) seconds.set(process, (seconds.get(process) ?? 0) + waited);
  return Math.max(0, ...seconds.values());
}
