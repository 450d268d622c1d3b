/**
 * @file When the conversations of a step may begin. A worker that can sample its own agent's version for the next step has nothing left to
 * do in a step that others still train on. It begins the next step's conversations; a sub-agent's wait for its own version, not for the
 * whole team's.
 *
 *     step s ready, s + 1 planned ──own version at hand──> conversations ──RUN at s + 1──> their time limits start, suspects run
 *
 * A conversation is a function of step, question and weights, so it does not depend on when it began.
 */
import type { StepRecord } from "../../core/contracts/records.ts";
import type { RunSnapshot, StepWatch } from "./watch.ts";

/** The step to sample now: RUN's own while it is open, then the next one if it may begin. */
export function stepToSample(snapshot: RunSnapshot | undefined): StepRecord | undefined {
  if (snapshot?.run.status !== "running") return undefined;
  return snapshot.step?.state === "open" ? snapshot.step : snapshot.next;
}

/** Resolves once RUN points at the step; by then every version that it pins is published. Rejects when the signal aborts. */
export function whenOpen(watch: StepWatch, step: number, signal: AbortSignal): Promise<unknown> {
  const opened = watch.until(({ run }) => (run.step >= step ? true : undefined), signal);
  // A caller that awaits it still sees the rejection; without one it must not be an unhandled rejection.
  opened.catch(() => {});
  return opened;
}
