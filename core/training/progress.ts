/**
 * @file A run's progress, which drives the curriculum, the schedules of the learning rate and the entropy bonus, and evaluations at shares of the
 * run. It depends only on the config and the STEP records, so every process agrees on it.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { StepRecord } from "../contracts/records.ts";

/** How far along the run is before a step, in [0, 1]: the share of `steps` or of `sampledTokens` that is done, whichever is larger. */
export function runShareAt(
  { steps, sampledTokens }: Pick<RunConfig, "steps" | "sampledTokens">,
  { step, sampledBefore }: Pick<StepRecord, "step" | "sampledBefore">,
): number {
  return Math.max(step / steps, sampledTokens === null ? 0 : sampledBefore / sampledTokens);
}
