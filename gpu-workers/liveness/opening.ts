/**
 * @file When the conversations of a step may begin. A worker that can sample from its own agent's version for the next step has nothing
 * left to do in one that others still train: its conversations of the next step begin, and a sub-agent's wait for its own version, not for
 * the whole team's.
 *
 *     step s ready, s + 1 planned ──own version at hand──> conversations ──RUN at s + 1──> their time limits count, suspects run
 *
 * What is said is a function of step, question and weights, so it is the same whenever it began.
 */
import type { StepRecord } from "../../core/contracts/records.ts";
import type { Seen, StepWatch } from "./watch.ts";

/** The step to sample now: RUN's own while it is open, else the next one, if it may begin. */
export function workable(seen: Seen | undefined): StepRecord | undefined {
  if (seen?.run.status !== "running") return undefined;
  return seen.step?.state === "open" ? seen.step : seen.next;
}

/** Resolves once RUN points at the step: then every version that it pins is published. Rejects when the signal aborts. */
export function whenOpen(watch: StepWatch, step: number, signal: AbortSignal): Promise<unknown> {
  const opened = watch.until(({ run }) => (run.step >= step ? true : undefined), signal);
  // Who waits for it is told; nobody need to.
  opened.catch(() => {});
  return opened;
}
