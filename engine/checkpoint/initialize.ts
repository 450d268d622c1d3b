/** @file Random initial weights for pretraining. */
import { stream } from "../../core/random.ts";
import type { ModelConfig } from "./config.ts";
import { EMBEDDING, FINAL_NORM, parameterLayout } from "./parameters.ts";

export interface Initialization {
  /**
   * Standard deviation of the embedding. The final norm starts at 1 / (embeddingStd * sqrt(width)), so that logits of a tied head start at
   * unit scale. With 1 a small model learns to copy tokens; with the customary 0.02 it hardly does.
   */
  readonly embeddingStd?: number;
  /** Gain of the linear layers: standard deviation gain / sqrt(inputs). */
  readonly gain?: number;
}

/**
 * All parameters, flat. Linear layers are normal, scaled by their inputs; those that write to the residual stream also by depth. Norms are 1,
 * biases 0.
 */
export function initializeWeights(
  config: ModelConfig,
  seed: number,
  { embeddingStd = 1, gain = 1 }: Initialization = {},
): Float32Array {
  const { parameters, length } = parameterLayout(config);
  const weights = new Float32Array(length);
  for (const { name, shape, offset, length: count } of parameters) {
    const part = weights.subarray(offset, offset + count);
    if (name.endsWith(".bias")) continue;
    if (shape.length === 1) {
      part.fill(name === FINAL_NORM ? 1 / (embeddingStd * Math.sqrt(config.width)) : 1);
      continue;
    }
    const residual = name.includes("o_proj") || name.includes("down_proj") ? 1 / Math.sqrt(2 * config.layers) : 1;
    const std = name === EMBEDDING ? embeddingStd : (gain * residual) / Math.sqrt(shape[1] ?? 1);
    fillNormal(part, std, ["initialize", seed, name]);
  }
  return weights;
}

/** Box-Muller. */
function fillNormal(part: Float32Array, std: number, name: (string | number)[]): void {
  const { uniform } = stream(...name);
  for (let i = 0; i < part.length; i++) {
    part[i] = std * Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  }
}
