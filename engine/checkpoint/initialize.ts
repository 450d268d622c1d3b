/** @file Random initial weights for pretraining. */
import { type StreamName, stream } from "../../core/random.ts";
import type { ModelConfig } from "./config.ts";
import { EMBEDDING, FINAL_NORM, parameterLayout } from "./parameters.ts";

/** Standard deviation of the embedding. With 1 a small model learns to copy tokens; with the customary 0.02 it hardly does. */
const EMBEDDING_STD = 1;

/**
 * All parameters, flat. Weights of linear layers are normal with standard deviation 1 / sqrt(inputs), and those of layers that write to the
 * residual stream are also divided by sqrt(2 * layers). Biases are 0. Norms are 1, except the final one, which is
 * 1 / (EMBEDDING_STD * sqrt(width)), so that the logits of a tied head start at unit scale.
 */
export function initializeWeights(config: ModelConfig, seed: number): Float32Array {
  const { parameters, length } = parameterLayout(config);
  const weights = new Float32Array(length);
  for (const { name, shape, offset, length: count } of parameters) {
    const part = weights.subarray(offset, offset + count);
    if (name.endsWith(".bias")) continue;
    if (shape.length === 1) {
      part.fill(name === FINAL_NORM ? 1 / (EMBEDDING_STD * Math.sqrt(config.width)) : 1);
      continue;
    }
    const scale = name.includes("o_proj") || name.includes("down_proj") ? 1 / Math.sqrt(2 * config.layers) : 1;
    const std = name === EMBEDDING ? EMBEDDING_STD : scale / Math.sqrt(shape[1] ?? 1);
    fillNormal(part, std, ["initialize", seed, name]);
  }
  return weights;
}

/** Draws by the Box-Muller transform. */
function fillNormal(part: Float32Array, std: number, name: StreamName): void {
  const { uniform } = stream(...name);
  for (let i = 0; i < part.length; i++) {
    part[i] = std * Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  }
}
