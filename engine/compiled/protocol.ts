/** @file Messages between the main thread and the engine threads. */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { PortableError } from "../../core/portable-error.ts";
import type { CheckpointFiles, Loss, SampleRequest, TrainingSequence } from "../../core/ports.ts";
import type { LaneOptions } from "./lanes.ts";
import type { Bits } from "./quantization/blocks.ts";

/**
 * A call on a sampler or trainer, or `quantize`, which needs neither. The caller chooses the handle of the sampler or trainer that a call
 * opens.
 */
export type EngineCall =
  | { readonly method: "openSampler" | "openTrainer"; readonly files: CheckpointFiles; readonly options: LaneOptions }
  | { readonly method: "quantize"; readonly files: CheckpointFiles; readonly bits: Bits; readonly path: string }
  | { readonly method: "sample"; readonly request: SampleRequest }
  | { readonly method: "logProbs"; readonly sequences: readonly (readonly number[])[]; readonly temperature: number }
  | {
      readonly method: "forwardBackward";
      readonly batch: readonly TrainingSequence[];
      readonly loss: Loss;
      readonly temperature: number;
    }
  | {
      readonly method: "optimizerStep";
      readonly config: OptimizerConfig;
      readonly scale: number;
      readonly gradients: readonly Float32Array[];
    }
  | { readonly method: "gradientNorm"; readonly gradients: readonly Float32Array[] }
  | { readonly method: "takeGradient" | "weights" }
  | { readonly method: "savedFile"; readonly index: number }
  | { readonly method: "setWeights"; readonly weights: Float32Array }
  | { readonly method: "load"; readonly files: CheckpointFiles }
  | { readonly method: "close" };

export type ToThread =
  | { readonly kind: "call"; readonly call: number; readonly handle: number; readonly body: EngineCall }
  /** The caller of a sample aborted it, or its time limit passed. */
  | { readonly kind: "cancel"; readonly call: number }
  | { readonly kind: "release"; readonly handle: number; readonly sequence: string };

export type FromThread =
  | { readonly kind: "result"; readonly call: number; readonly value: unknown }
  /** Any error that is not an MgrpoError has become `engine-unsupported` (engine-error.ts). */
  | { readonly kind: "error"; readonly call: number; readonly error: PortableError };
