/**
 * @file One lane of the trainer on compiled graphs: gradients over micro-batches accumulate in one flat vector, which AdamW applies
 * once the other lanes' gradients have been added (data-parallel.ts). All weights are trained, or an adapter on them.
 */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { CheckpointFiles, Trainer } from "../../core/ports.ts";
import { openTrainedState, type TrainedState } from "../trained-state.ts";
import { addTo } from "./arrays.ts";
import type { LaneOptions } from "./lanes.ts";
import { layeredPasses } from "./layered-passes.ts";
import { computesWhole } from "./memory.ts";
import { openWeights } from "./weights.ts";
import { wholePasses } from "./whole-passes.ts";

export interface LaneTrainer extends Omit<Trainer, "optimizerStep"> {
  /** The gradient so far, flat; it is zero afterwards. */
  takeGradient(): Promise<Float32Array>;
  /** As a Trainer's, after adding other lanes' gradients in their order. */
  optimizerStep(
    config: OptimizerConfig,
    scale: number,
    gradients: readonly Float32Array[],
  ): Promise<{ gradientNorm: number }>;
  /** A copy of what is trained, flat. */
  weights(): Promise<Float32Array>;
  /** Replaces what is trained and nothing else. */
  setWeights(weights: Float32Array): Promise<void>;
}

/** What computes: forwardBackward adds to the state's gradient. */
export type Passes = Pick<Trainer, "logProbs" | "forwardBackward">;

export function openLaneTrainer(files: CheckpointFiles, options: LaneOptions): LaneTrainer {
  const state = openTrainedState(files);
  const { weights, gradient, optimizerStep, save, load } = state;
  return {
    ...passesOf(state, files, options),
    async takeGradient() {
      const taken = gradient.slice();
      gradient.fill(0);
      return taken;
    },
    async optimizerStep(optimizer, scale, gradients) {
      for (const other of gradients) addTo(gradient, other);
      return optimizerStep(optimizer, scale);
    },
    weights: async () => weights.slice(),
    async setWeights(from) {
      weights.set(from);
    },
    save,
    load,
    async close() {},
  };
}

function passesOf(state: TrainedState, files: CheckpointFiles, options: LaneOptions): Passes {
  if (state.lora) return layeredPasses(state, openWeights(files), options);
  return computesWhole(state.config, options)
    ? wholePasses(state, options)
    : layeredPasses(state, { external: new Map(), feeds: {} }, options);
}
