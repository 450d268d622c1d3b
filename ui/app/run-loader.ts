/**
 * @file Loads a run's view as the run grows: only new steps and the newest known one, one load at a time (reloader.ts). A failed load is
 * repeated every few seconds: an outage may be over before the stream of pulses notices it. Meanwhile the known view stays, and the header
 * shows what the stream reports.
 *
 *     load ──> loading ──view──> loaded, or the next revision
 *                 └──failed──> waits for: a pause     unblocked by: time; after `close`, nothing follows
 */
import type { Failure, RunPulse, RunView } from "../views.ts";
import { Reloader } from "./reloader.ts";

export interface LoadedRun {
  readonly view?: RunView;
  readonly failure?: Failure;
}

/**
 * Changes when a step closes, the state changes, or a finished run moves on to its next evaluation. Evaluations that end while the run
 * trains are loaded with the next step.
 */
export const revisionOf = ({ closed, state, wait }: Pick<RunPulse, "closed" | "state" | "wait">): string =>
  `${closed} ${state} ${state === "finished" ? wait : ""}`;

/**
 * Changes whenever the page of a step may have changed: as the run progresses, until the step is closed and the next one is planned, and then
 * once more. Undefined from then on, and while nothing is known of the run.
 */
export function stepRevisionOf(pulse: Pick<RunPulse, "closed" | "openStep" | "wait"> | undefined, step: number) {
  if (!pulse) return undefined;
  const { closed, openStep, wait } = pulse;
  const hasNext = closed > step + 1 || (openStep ?? step) > step;
  return closed > step && hasNext ? undefined : `${closed} ${openStep} ${wait}`;
}

/**
 * Changes whenever the pages of the run's evaluations may have changed: as `revisionOf`, until no evaluation is left, and then once more.
 * Undefined from then on, and while nothing is known of the run.
 */
export function evaluationsRevisionOf(pulse: Pick<RunPulse, "closed" | "state" | "wait"> | undefined) {
  if (!pulse) return undefined;
  const mayChange = pulse.state === "running" || (pulse.state === "finished" && pulse.wait !== null);
  return mayChange ? revisionOf(pulse) : undefined;
}

export class RunLoader {
  readonly run: string;
  readonly #read: (path: string) => Promise<LoadedRun>;
  readonly #reloader: Reloader;
  #known: RunView | undefined;

  /** @param read reads a path of the API, and never rejects. */
  constructor(run: string, read: (path: string) => Promise<LoadedRun>, retrySeconds?: number) {
    this.run = run;
    this.#read = read;
    this.#reloader = new Reloader(retrySeconds);
  }

  /** Ends the retries: the page that shows the run is gone. */
  close(): void {
    this.#reloader.close();
  }

  /** @param show is called after each load, except after one that failed while an earlier view is known. */
  load(revision: string | undefined, show: (loaded: LoadedRun) => void): Promise<void> {
    return this.#reloader.request(revision, async () => {
      const loaded = await this.#loadNew();
      if (loaded.view || !this.#known) show(loaded);
      return loaded.failure === undefined;
    });
  }

  /**
   * The run, with the known steps and those after them. The newest known step is loaded again: unless it is as before, this is another run of the
   * same name, and all of its steps are loaded.
   */
  async #loadNew(): Promise<LoadedRun> {
    const before = this.#known?.perStep ?? [];
    const last = before.at(-1);
    // Not the number of known steps: the scores of the first steps may have expired.
    const next = await this.#read(`/api/runs/${this.run}?from=${last?.step ?? 0}`);
    if (!next.view) return next;
    const { perStep } = next.view;
    const isAnother = last !== undefined && JSON.stringify(perStep[0]) !== JSON.stringify(last);
    this.#known = isAnother ? undefined : { ...next.view, perStep: [...before.slice(0, -1), ...perStep] };
    return this.#known ? { view: this.#known } : this.#loadNew();
  }
}
