/** @file A run's progress: the state of the live line, and its text. Pure. */
import colors from "picocolors";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { duration } from "./columns.ts";
import { cut, flow } from "./flow.ts";

const MAX_BAR_WIDTH = 32;
/** Number of recent steps used to estimate the time left. */
const RECENT_STEPS = 10;

/** Totals over the closed steps. */
export interface RunProgress {
  readonly steps: number;
  readonly sampledTokens: number;
  /** Durations of the latest timed steps. */
  readonly recentSeconds: readonly number[];
}

const NO_PROGRESS: RunProgress = { steps: 0, sampledTokens: 0, recentSeconds: [] };

export function runProgressOf(steps: readonly StepSummary[]): RunProgress {
  return steps.reduce(afterStep, NO_PROGRESS);
}

export function afterStep(progress: RunProgress, { step, sampledTokens, seconds }: StepSummary): RunProgress {
  return {
    steps: step + 1,
    sampledTokens: progress.sampledTokens + sampledTokens,
    recentSeconds:
      seconds === null ? progress.recentSeconds : [...progress.recentSeconds, seconds].slice(-RECENT_STEPS),
  };
}

/** In [0, 1]: the share of the steps, or of the sampled tokens if that is larger. */
function shareDone({ steps, sampledTokens }: RunConfig, progress: RunProgress): number {
  const tokenShare = sampledTokens === null ? 0 : progress.sampledTokens / sampledTokens;
  return Math.min(1, Math.max(progress.steps / steps, tokenShare));
}

/**
 * Estimated time of the remaining steps. Undefined before two timed steps, since the first includes the start of the workers, and after the
 * last step: evaluations are not estimated.
 */
export function secondsLeft(config: RunConfig, progress: RunProgress): number | undefined {
  const share = shareDone(config, progress);
  const typical = progress.recentSeconds.length < 2 ? undefined : lowerMedian(progress.recentSeconds);
  return typical === undefined || share === 1 ? undefined : typical * progress.steps * (1 / share - 1);
}

/** The bar, the steps, the time left, and what the run is doing or waiting for, on a second line if the first has no room. */
export function progressLine(config: RunConfig, progress: RunProgress, activity: string, width: number): string {
  const bar = Math.min(MAX_BAR_WIDTH, Math.floor(width / 4));
  const filled = Math.round(bar * shareDone(config, progress));
  const left = secondsLeft(config, progress);
  const tone = activity.startsWith("waiting for") ? colors.yellow : colors.dim;
  const parts = [
    { text: "━".repeat(filled) + "─".repeat(bar - filled), tone: (text: string) => twoTone(text, filled) },
    { text: `${progress.steps}/${config.steps}` },
    ...(left === undefined ? [] : [{ text: `${duration(left)} left` }]),
    { text: cut(activity, width - 2), tone },
  ];
  return `\n  ${flow(parts, 2, width)}`;
}

function twoTone(bar: string, filled: number): string {
  return colors.cyan(bar.slice(0, filled)) + colors.dim(bar.slice(filled));
}

/** The median, or the lower of the two middle values. Of only two steps, the first takes longer: it includes the start of the workers. */
function lowerMedian(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
