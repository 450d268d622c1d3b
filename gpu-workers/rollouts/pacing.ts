/**
 * @file The pause between two rounds of claiming. If the next round may find more to claim, it is the poll interval after a round that started
 * attempts; each round that started none makes it a tenth longer, up to ten times the poll interval. Otherwise the caller passes a longer pause.
 *
 *     pause   unblocked by: its end, `wake` (an attempt ended), a change of the open steps, the stop signal
 */
import { withAnySignal } from "../../core/any-signal.ts";
import type { RunSnapshot, StepWatch } from "../liveness/watch.ts";

export class Pacing {
  readonly #pollSeconds: number;
  #seconds: number;
  #wake = new AbortController();

  constructor(pollSeconds: number) {
    this.#pollSeconds = pollSeconds;
    this.#seconds = pollSeconds;
  }

  /** The length of the pause before a round that may find more to claim. */
  get seconds(): number {
    return this.#seconds;
  }

  /** Ends the current pause, or the next one if there is none. */
  wake(): void {
    this.#wake.abort();
  }

  afterRound(hasStarted: boolean): void {
    this.#seconds = hasStarted ? this.#pollSeconds : Math.min(this.#seconds * 1.1, this.#pollSeconds * 10);
  }

  /** @param hasMoved whether the open steps have changed since the last round began. */
  async pause(
    watch: StepWatch,
    seconds: number,
    hasMoved: (seen: RunSnapshot) => boolean,
    stop: AbortSignal,
  ): Promise<void> {
    const pick = (seen: RunSnapshot) => (hasMoved(seen) ? true : undefined);
    await withAnySignal([stop, this.#wake.signal], (either) => watch.pause(seconds, pick, either));
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
  }
}
