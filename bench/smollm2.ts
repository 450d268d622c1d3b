/** @file The shape of SmolLM2-135M, with random weights in the benchmarks. */
import type { ModelConfig } from "../engine/checkpoint/config.ts";

export const SMOLLM2_135M: ModelConfig = {
  layers: 30,
  width: 576,
  heads: 9,
  kvHeads: 3,
  headWidth: 64,
  ffnWidth: 1536,
  vocabulary: 49152,
  ropeTheta: 100000,
  ropeScaling: null,
  epsilon: 1e-5,
  tied: true,
  queryKeyNorm: false,
  projectionBias: false,
};
