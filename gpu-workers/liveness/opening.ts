/**
 * @file When the conversations of a step begin, and when its time limits start. A conversation may begin once its own agent's version is
 * at hand, even while other workers still train theirs; but an app that runs elsewhere is called when the time limits start, since it counts
 * them too (gateway/app-rollout.ts). The time limits start once every version that the step's record names is published.
 * With `staleness` n, the versions of steps RUN.step to RUN.step + n are published; conversations of step RUN.step + n + 1 may begin early.
 *
 *     step s ready, s+n+1 planned ──own version at hand──> conversations ──RUN at s + 1──> their time limits start
 *
 * A conversation is a function of its rollout's address, question and weights, so it does not depend on when it began.
 */
import type { StepRecord } from "../../core/contracts/records.ts";
import type { RunSnapshot, StepWatch } from "./watch.ts";

/** The steps to sample now, oldest first. */
export function stepsToSample(snapshot: RunSnapshot | undefined): readonly StepRecord[] {
  return snapshot?.run.status === "running" ? snapshot.samplable : [];
}

/** Resolves once every version that the step is sampled from is published. Rejects when the signal aborts. */
export function whenOpen(watch: StepWatch, step: number, staleness: number, signal: AbortSignal): Promise<unknown> {
  const opened = watch.until(({ run }) => (run.step >= step - staleness ? true : undefined), signal);
  // Callers that await it still see the rejection; if there are none, it must not count as unhandled.
  opened.catch(() => {});
  return opened;
}
