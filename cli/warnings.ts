/** @file What a run's steps should make its user look at, besides their numbers. */
import type { RunConfig } from "../core/contracts/config.ts";
import { shareAboveTarget } from "../core/mgrpo/alignment.ts";
import type { StepSummary } from "./step-summary.ts";

/** Steps over which a share is taken, and after which it is told again. */
const WINDOW = 10;
/** Eq 11: P(d_k <= d) is to be about 0.99. */
const ABOVE_TARGET = 0.01;

/** One line per sub-agent that was called more than d times too often in the last steps; told at most every ten steps. */
export function alignmentWarnings({ algorithm }: RunConfig, steps: readonly StepSummary[]): string[] {
  const { mode, d } = algorithm.alignment;
  if (mode !== "resample" || steps.length === 0 || steps.length % WINDOW > 0) return [];
  const recent = steps.slice(-WINDOW);
  return Object.keys(recent[0]?.calls ?? {}).flatMap((sub) => {
    const share = shareAboveTarget(added(recent.map(({ calls }) => calls[sub] ?? [])), d);
    if (share <= ABOVE_TARGET) return [];
    const percent = (100 * share).toFixed(1);
    return `warning: ${percent} % of the rollouts of the last ${recent.length} steps called '${sub}' more than d = ${d} times (eq 11 allows 1 %); their further calls train nothing: raise algorithm.alignment.d`;
  });
}

function added(histograms: readonly (readonly number[])[]): number[] {
  const longest = Math.max(...histograms.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) =>
    histograms.reduce((total, histogram) => total + (histogram[i] ?? 0), 0),
  );
}
