/** @file The learning rate over a run. */

import type { OptimizerConfig, ScheduledOptimizer } from "../contracts/agent-config.ts";
import type { RunConfig } from "../contracts/config.ts";
import type { StepRecord } from "../contracts/records.ts";

/** Share of the run that is over when a step begins, in [0, 1): of its steps, or of its sampled tokens, whichever is larger. */
export function progressAt(
  { steps, sampledTokens }: Pick<RunConfig, "steps" | "sampledTokens">,
  { step, sampledBefore }: Pick<StepRecord, "step" | "sampledBefore">,
): number {
  return Math.max(step / steps, sampledTokens === null ? 0 : sampledBefore / sampledTokens);
}

/** The optimizer at that share of the run. */
export function optimizerAt({ schedule, ...optimizer }: ScheduledOptimizer, progress: number): OptimizerConfig {
  const factor = schedule === "linear" ? 1 - progress : 1;
  return { ...optimizer, learningRate: optimizer.learningRate * factor };
}
