/**
 * @file One lane of the trainer on compiled graphs. Micro-batch gradients accumulate in one flat vector, which AdamW applies once the other
 * lanes' gradients have been added (data-parallel.ts). Trains all weights, or only an adapter.
 */
import type { OptimizerConfig } from "../../../core/contracts/agent-config.ts";
import type { CheckpointFiles, SavedFile, Trainer } from "../../../core/ports.ts";
import { openTrainedState, type TrainedState } from "../../model/trained-state.ts";
import type { LaneOptions } from "../lanes.ts";
import { computesWhole } from "../memory.ts";
import { openWeights } from "../open-weights.ts";
import { endUse } from "../shared-sessions.ts";
import { addInto } from "./arrays.ts";
import { type FrozenWeights, LayeredPasses } from "./layered-passes.ts";
import type { Passes } from "./passes.ts";
import { plannedPasses } from "./planned-passes.ts";
import { WholePasses } from "./whole-passes.ts";

export interface LaneTrainer extends Omit<Trainer, "optimizerStep" | "gradientNorm" | "save" | "saveFiles"> {
  /** Returns the accumulated gradient, flat, and resets it to zero. */
  takeGradient(): Promise<Float32Array>;
  /** As Trainer's, after adding the other lanes' gradients in order. */
  optimizerStep(
    config: OptimizerConfig,
    scale: number,
    gradients: readonly Float32Array[],
  ): Promise<{ gradientNorm: number }>;
  /** As Trainer's, after adding the other lanes' gradients in order. */
  gradientNorm(gradients: readonly Float32Array[]): Promise<number>;
  /** A copy of the trained weights, flat. */
  weights(): Promise<Float32Array>;
  /** The `index`-th file of the saved state, in the order of `saveFiles`. Undefined after the last. */
  savedFile(index: number): Promise<SavedFile | undefined>;
  /** Replaces the trained weights; keeps gradient and optimizer state. */
  setWeights(weights: Float32Array): Promise<void>;
}

export function openLaneTrainer(files: CheckpointFiles, options: LaneOptions): LaneTrainer {
  const state = openTrainedState(files, options.shardBytes);
  const { weights, gradient, optimizerStep, gradientNorm, savedFile, load } = state;
  const frozen = state.lora ? openWeights(files, options.quantized) : { external: new Map(), feeds: {} };
  return {
    ...plannedPasses(openPasses(state, frozen, options), state, options),
    async takeGradient() {
      const taken = gradient.slice();
      gradient.fill(0);
      return taken;
    },
    async optimizerStep(optimizer, scale, gradients) {
      for (const other of gradients) addInto(gradient, other);
      return optimizerStep(optimizer, scale);
    },
    async gradientNorm(gradients) {
      for (const other of gradients) addInto(gradient, other);
      return gradientNorm();
    },
    weights: async () => weights.slice(),
    async setWeights(from) {
      weights.set(from);
    },
    savedFile: async (index) => savedFile(index),
    load,
    async close() {
      endUse(frozen.external);
    },
  };
}

function openPasses(state: TrainedState, frozen: FrozenWeights, options: LaneOptions): Passes {
  // Packed weights cost memory and gain nothing here: a product has many rows, one for each token of the micro-batch.
  const frozenOptions = { ...options, packsWeights: false, multipliesCodes: false };
  if (state.lora) return new LayeredPasses(state, frozen, frozenOptions);
  return computesWhole(state.config, options)
    ? new WholePasses(state, options)
    : new LayeredPasses(state, frozen, options);
}
