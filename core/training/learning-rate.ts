/** @file The learning rate over a run. */

import type { AgentOptimizer, StepOptimizer } from "../contracts/agent-config.ts";

/** The optimizer at this progress of the run (progress.ts). */
export function optimizerAt(optimizer: AgentOptimizer, progress: number): StepOptimizer {
  const factor = optimizer.schedule === "linear" ? 1 - progress : 1;
  const learningRate = optimizer.learningRate * factor;
  if (optimizer.kind === "server") return { kind: "server", learningRate };
  const { schedule, kind, ...config } = optimizer;
  return { ...config, learningRate };
}
