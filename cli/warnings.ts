/** @file Warnings about the steps of a run. */
import type { RunConfig } from "../core/contracts/config.ts";
import { shareAboveTarget } from "../core/mgrpo/alignment.ts";
import type { StepSummary } from "./step-summary.ts";

/** Steps that a share is taken over, and between two warnings. */
const WINDOW = 10;
/** Eq 11: P(d_k <= d) is to be about 0.99. */
const ABOVE_TARGET = 0.01;

/** One line for each sub-agent that too many recent rollouts called more than d times; after every tenth step. */
export function alignmentWarnings({ algorithm }: RunConfig, steps: readonly StepSummary[]): string[] {
  const { mode, d } = algorithm.alignment;
  if (mode !== "resample" || steps.length === 0 || steps.length % WINDOW > 0) return [];
  const recent = steps.slice(-WINDOW);
  return Object.keys(recent[0]?.calls ?? {}).flatMap((sub) => {
    const share = shareAboveTarget(totalUsd(recent.map(({ calls }) => calls[sub] ?? [])), d);
    if (share <= ABOVE_TARGET) return [];
    const percent = (100 * share).toFixed(1);
    return `warning: ${percent} % of the rollouts of the last ${recent.length} steps called '${sub}' more than d = ${d} times (eq 11 allows 1 %); the calls after the first d are not trained on: raise algorithm.alignment.d`;
  });
}

function totalUsd(histograms: readonly (readonly number[])[]): number[] {
  const longest = Math.max(...histograms.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) =>
    histograms.reduce((total, histogram) => total + (histogram[i] ?? 0), 0),
  );
}
