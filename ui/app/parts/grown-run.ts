/** @file A run's view that grows as its steps close. Early steps may be missing, because their scores have expired. Pure. */
import type { RunView } from "../../views.ts";

/** The first step that the view does not have yet: `from` in the query for the rest. */
export function nextStep(known: RunView | undefined): number {
  const newest = known?.perStep.at(-1);
  return newest ? newest.step + 1 : 0;
}

/** The newer view, with the steps of both. */
export function grown(known: RunView | undefined, newer: RunView): RunView {
  return { ...newer, perStep: [...(known?.perStep ?? []), ...newer.perStep] };
}
