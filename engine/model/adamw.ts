/**
 * @file AdamW (Loshchilov and Hutter 2019, algorithm 2) on one flat vector, with two differences: the learning rate multiplies the decay
 * too, as in PyTorch, and the scaled gradient is clipped by its global norm first:
 *   g <- g * scale;  g <- g * min(1, maxNorm / |g|);  m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
 *   w <- w - rate * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay * w)
 * Weight decay applies to every parameter, norms and embeddings included, except those that the caller excludes.
 */

import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { AdamState } from "../checkpoint/adam-state.ts";

/** A part of the flat vector, in elements. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

/**
 * Updates weights and state in place; returns the norm of the scaled gradient before clipping. `undecayed`: the ranges without weight decay, in
 * ascending order, without overlap.
 */
export function adamStep(
  weights: Float32Array,
  gradient: Float32Array,
  state: AdamState,
  config: OptimizerConfig,
  scale = 1,
  undecayed: readonly Range[] = [],
): number {
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradientNorm } = config;
  const { m, v } = state;
  state.step++;
  let squares = 0;
  for (let i = 0; i < gradient.length; i++) {
    const g = gradient[i] as number;
    squares += g * g;
  }
  const norm = Math.abs(scale) * Math.sqrt(squares);
  const factor = maxGradientNorm !== null && norm > maxGradientNorm ? (maxGradientNorm / norm) * scale : scale;
  const stepSize = learningRate / (1 - beta1 ** state.step);
  const correction = 1 / Math.sqrt(1 - beta2 ** state.step);
  const update = (begin: number, end: number, shrinkage: number) => {
    for (let i = begin; i < end; i++) {
      const g = (gradient[i] as number) * factor;
      const first = beta1 * (m[i] as number) + (1 - beta1) * g;
      const second = beta2 * (v[i] as number) + (1 - beta2) * g * g;
      m[i] = first;
      v[i] = second;
      weights[i] = (weights[i] as number) * shrinkage - (stepSize * first) / (Math.sqrt(second) * correction + epsilon);
    }
  };
  const shrinkage = 1 - learningRate * weightDecay;
  let begin = 0;
  for (const { offset, length } of undecayed) {
    update(begin, offset, shrinkage);
    update(offset, offset + length, 1);
    begin = offset + length;
  }
  update(begin, gradient.length, shrinkage);
  return norm;
}
