/** @file The learning rate over a run. */
import type { AgentOptimizer, StepOptimizer } from "../contracts/agent-config.ts";

/** The optimizer of a step that begins at this progress of the run (progress.ts), which has at most `steps` steps. */
export function optimizerAt(optimizer: AgentOptimizer, progress: number, steps: number): StepOptimizer {
  const learningRate = optimizer.learningRate * learningRateFactor(optimizer, progress, 1 / steps);
  if (optimizer.kind === "server") return { kind: "server", learningRate };
  const { schedule, warmupRatio, kind, ...config } = optimizer;
  return { ...config, learningRate };
}

/**
 * In [0, 1]. `step`: one step as a share of the run, 1 / steps, even if progress is measured in sampled tokens. With n equal warm-up
 * steps, step i (from 0) has factor (i + 1) / (n + 1), so that no step is wasted at rate 0; the decay begins after them.
 */
function learningRateFactor(
  { schedule, warmupRatio }: Pick<AgentOptimizer, "schedule" | "warmupRatio">,
  progress: number,
  step: number,
): number {
  if (progress < warmupRatio) return (progress + step) / (warmupRatio + step);
  if (schedule === "constant") return 1;
  const decayed = (progress - warmupRatio) / (1 - warmupRatio);
  return schedule === "linear" ? 1 - decayed : (1 + Math.cos(Math.PI * decayed)) / 2;
}
