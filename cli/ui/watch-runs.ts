/**
 * @file Watches runs for the pages that show them: one loop per run, while a page listens, however many do.
 *
 *     subscribe ──> loop: read the pulse ──changed──> every listener      ends with the last listener
 */
import { isMgrpoError } from "../../core/errors.ts";
import { StallDetector } from "../../core/monitoring/stall.ts";
import type { RunPulse } from "../../ui/views.ts";
import { openSource } from "../show/source.ts";
import { runPulse } from "./run.ts";

export type Listener = (pulse: RunPulse) => void;

export interface RunWatcher {
  /** Calls the listener now and after every change. Returns how to end that. */
  subscribe(run: string, listener: Listener): () => void;
  close(): void;
}

const SECONDS = 1;

export function openRunWatcher(report: (line: string) => void): RunWatcher {
  const watches = new Map<string, Watch>();
  return {
    subscribe(run, listener) {
      const watch = watches.get(run) ?? new Watch(run, report);
      watches.set(run, watch);
      watch.add(listener);
      return () => {
        if (watch.remove(listener) === 0) watches.delete(run);
      };
    },
    close() {
      for (const watch of watches.values()) watch.stop();
      watches.clear();
    },
  };
}

class Watch {
  readonly #run: string;
  readonly #report: (line: string) => void;
  readonly #listeners = new Set<Listener>();
  #newest: RunPulse | undefined;
  #detector: StallDetector | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(run: string, report: (line: string) => void) {
    this.#run = run;
    this.#report = report;
  }

  add(listener: Listener): void {
    this.#listeners.add(listener);
    if (this.#newest) listener(this.#newest);
    if (this.#listeners.size === 1) void this.#look();
  }

  /** Returns the number of listeners that are left. */
  remove(listener: Listener): number {
    this.#listeners.delete(listener);
    if (this.#listeners.size === 0) this.stop();
    return this.#listeners.size;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#listeners.clear();
  }

  async #look(): Promise<void> {
    try {
      const source = await openSource(this.#run);
      this.#detector ??= new StallDetector(source.config);
      const pulse = await runPulse(source, this.#detector);
      if (JSON.stringify(pulse) !== JSON.stringify(this.#newest)) {
        this.#newest = pulse;
        for (const listener of this.#listeners) listener(pulse);
      }
    } catch (error) {
      // The process that trains the run may end between two reads: the next look finds out how.
      if (!isMgrpoError(error)) this.#report(`${this.#run}: ${String(error)}`);
    }
    if (this.#listeners.size > 0) this.#timer = setTimeout(() => void this.#look(), SECONDS * 1000);
  }
}
