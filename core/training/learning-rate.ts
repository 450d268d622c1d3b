/** @file The learning rate over a run. */

import type { AgentOptimizer, StepOptimizer } from "../contracts/agent-config.ts";
import type { RunConfig } from "../contracts/config.ts";
import type { StepRecord } from "../contracts/records.ts";

/** How far the run is when a step begins, in [0, 1): the share of its steps or of its sampled tokens, whichever is larger. */
export function progressAt(
  { steps, sampledTokens }: Pick<RunConfig, "steps" | "sampledTokens">,
  { step, sampledBefore }: Pick<StepRecord, "step" | "sampledBefore">,
): number {
  return Math.max(step / steps, sampledTokens === null ? 0 : sampledBefore / sampledTokens);
}

/** The optimizer at this progress. */
export function optimizerAt(optimizer: AgentOptimizer, progress: number): StepOptimizer {
  const factor = optimizer.schedule === "linear" ? 1 - progress : 1;
  const learningRate = optimizer.learningRate * factor;
  if (optimizer.kind === "server") return { kind: "server", learningRate };
  const { schedule, kind, ...config } = optimizer;
  return { ...config, learningRate };
}
