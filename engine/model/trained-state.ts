/**
 * @file What every local trainer trains, all weights or an adapter: the weights, their gradient and Adam's moments, and how they are saved and
 * loaded. The frozen base under an adapter is not included: each trainer loads its own.
 */
import type { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, SavedFile, Trainer } from "../../core/ports.ts";
import { ADAPTER_FILE, adapterLayout, readAdapter, readAdapterConfig } from "../checkpoint/adapter.ts";
import { type ModelConfig, readModelConfig } from "../checkpoint/config.ts";
import { type Parameter, type ParameterLayout, parameterLayout } from "../checkpoint/parameters.ts";
import { planModelFiles, planOptimizerFiles, readOptimizer, refuseUnsavable } from "../checkpoint/shards.ts";
import { parseCheckpoint, withConfigOf, writeModel } from "../checkpoint/weights.ts";
import { adamStep } from "./adamw.ts";
import { checkGradient, checkOptimizerStep } from "./input-checks.ts";

export interface TrainedState extends Required<Pick<Trainer, "optimizerStep" | "gradientNorm" | "load">> {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  /** Flat, by `layout`; always the same array, so that views of it stay valid. */
  readonly weights: Float32Array;
  /** The config of the trained adapter; null: all weights are trained. */
  readonly lora: LoraConfig | null;
  /** Flat; forwardBackward adds to it. */
  readonly gradient: Float32Array;
  /** The `index`-th file of the saved state: the weights' files, then the optimizer's. Undefined after the last. */
  savedFile(index: number): SavedFile | undefined;
}

/** @param shardBytes maximum bytes of the tensors in a saved file, unless a single one is larger; absent: 1 GiB. An adapter is always one file. */
export function openTrainedState(files: CheckpointFiles, shardBytes?: number): TrainedState {
  const config = readModelConfig(files);
  const trained = readAdapterConfig(files)?.lora ?? null;
  refuseUnsavable(trained ? adapterLayout(config, trained) : parameterLayout(config), trained);
  const adapter = readAdapter(files, config);
  const { layout, weights } = adapter ?? parseCheckpoint(files);
  const lora = adapter?.lora ?? null;
  // Keeps config.json only: the other files may be as large as the state.
  const configFile = new Map([...files].filter(([name]) => name === "config.json"));
  const gradient = new Float32Array(layout.length);
  /** The gradient at the last `gradientNorm`; empty if there was none since the last `optimizerStep` or `load`. */
  let measured = new Float32Array();
  let adam = readOptimizer(files, layout.length);
  const dropGradient = () => {
    gradient.fill(0);
    measured = new Float32Array();
  };
  return {
    config,
    lora,
    layout,
    weights,
    gradient,
    async optimizerStep(optimizer: OptimizerConfig, scale = 1) {
      checkOptimizerStep(optimizer, scale);
      try {
        checkGradient(gradient);
        return { gradientNorm: adamStep(weights, gradient, adam, optimizer, scale, undecayed(layout, optimizer)) };
      } finally {
        // Even after a refusal: otherwise later gradients would be added to one that is not finite.
        dropGradient();
      }
    },
    async gradientNorm() {
      const norm = Math.sqrt(gradient.reduce((sum, g, i) => sum + (g - (measured[i] ?? 0)) ** 2, 0));
      measured = gradient.slice();
      return norm;
    },
    savedFile(index) {
      const files = [
        ...(lora
          ? [{ name: ADAPTER_FILE, write: () => writeModel(layout, weights) }]
          : planModelFiles(layout, weights, "F32", shardBytes)),
        ...planOptimizerFiles(adam, shardBytes),
      ];
      const file = files[index];
      return file && [file.name, file.write()];
    },
    async load(from) {
      const given = withConfigOf(from, config, configFile);
      // Everything is read before anything is replaced: damaged files leave the state as it is.
      const loaded = lora ? adapterWeights(given, config, lora) : parseCheckpoint(given).weights;
      adam = readOptimizer(from, layout.length);
      weights.set(loaded);
      dropGradient();
    },
  };
}

/** Parameters without weight decay: under `decayed: matrices` the norms and biases, which are vectors; otherwise none. */
function undecayed({ parameters }: ParameterLayout, { decayed }: OptimizerConfig): readonly Parameter[] {
  return decayed === "matrices" ? parameters.filter(({ shape }) => shape.length === 1) : [];
}

function adapterWeights(files: CheckpointFiles, config: ModelConfig, lora: LoraConfig): Float32Array {
  const adapter = readAdapter(files, config);
  if (adapter && JSON.stringify(adapter.lora) === JSON.stringify(lora)) return adapter.weights;
  const found = adapter
    ? `an adapter of rank ${adapter.lora.rank} and alpha ${adapter.lora.alpha} on ${adapter.lora.targets.join(", ")}`
    : "no adapter";
  throw new MgrpoError(
    "checkpoint-damaged",
    `${ADAPTER_FILE}: ${found}, but this trainer trains an adapter of rank ${lora.rank} and alpha ${lora.alpha} on ${lora.targets.join(", ")}: load a version of its own adapter`,
  );
}
