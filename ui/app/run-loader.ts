/** @file Loads a run's view as the run grows: only new steps, one load at a time. The last revision to arrive during a load is loaded next. */
import type { Failure, RunPulse, RunView } from "../views.ts";

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

export class RunLoader {
  readonly run: string;
  readonly #read: (path: string) => Promise<LoadedRun>;
  #wanted: string | undefined;
  #isLoading = false;
  #known: RunView | undefined;

  /** @param read reads a path of the API, and never rejects. */
  constructor(run: string, read: (path: string) => Promise<LoadedRun>) {
    this.run = run;
    this.#read = read;
  }

  async load(revision: string | undefined, show: (loaded: LoadedRun) => void): Promise<void> {
    this.#wanted = revision;
    if (this.#isLoading) return;
    this.#isLoading = true;
    let shown: string | undefined;
    do {
      shown = this.#wanted;
      show(await this.#loadNew());
    } while (shown !== this.#wanted);
    this.#isLoading = false;
  }

  /** The run, with the known steps and those after them. A run with fewer steps is another one of the same name: all of its steps are loaded. */
  async #loadNew(): Promise<LoadedRun> {
    const before = this.#known?.perStep ?? [];
    // Not the number of known steps: the scores of the first steps may have expired.
    const from = (before.at(-1)?.step ?? -1) + 1;
    const next = await this.#read(`/api/runs/${this.run}?from=${from}`);
    if (!next.view) return next;
    const isAnother = next.view.step < from;
    this.#known = isAnother ? undefined : { ...next.view, perStep: [...before, ...next.view.perStep] };
    return this.#known ? { view: this.#known } : this.#loadNew();
  }
}
