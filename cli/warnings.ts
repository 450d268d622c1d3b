/** @file Warnings about the steps of a run. */
import type { RunConfig } from "../core/contracts/config.ts";
import { shareAboveTarget } from "../core/mgrpo/alignment.ts";
import type { StepSummary } from "./step-summary.ts";
import { MGRPO } from "./terminal/name.ts";

/** Number of steps over which a share is computed, and between two warnings. */
const WINDOW = 10;
/** Eq 11: P(d_k <= d) should be about 0.99. */
const ABOVE_TARGET = 0.01;

/** What the user should look at after the newest step, one line each. */
export function stepWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  return [...firstStepWarnings(config, steps), ...alignmentWarnings(config, steps)];
}

/** If the first step has no learning signal, later steps usually have none either. */
function firstStepWarnings(
  { run, recipe, main, agents }: RunConfig,
  [first, second]: readonly StepSummary[],
): string[] {
  if (!first || second || first.groups === 0 || first.zeroVariance < first.groups) return [];
  const look = `see what they say: ${MGRPO} show ${run} 0`;
  if (first.wellFormed > 0) {
    return [
      `warning: the first step taught nothing: all rollouts of a question have the same reward; ${look}; ask easier questions, or reward parts of an answer`,
    ];
  }
  return [
    `warning: the first step taught nothing: no rollout is well-formed, so all have the same reward. ${agents[main]?.model} does not know how to call tools and answer; ${look}; then teach it from demonstrations first: ${MGRPO} sft ${recipe} --to <folder> (docs/sft.md), or take a model that knows tool calls and say its part in agents.${main}.system`,
  ];
}

/** One line for each sub-agent that too many recent rollouts called more than d times; after every tenth step. */
function alignmentWarnings({ algorithm }: RunConfig, steps: readonly StepSummary[]): string[] {
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
