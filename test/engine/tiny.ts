/** @file Tiny models and adapters for the engine tests. Most sizes differ, so that swapped dimensions show. */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LoraConfig, LoraTarget } from "../../core/contracts/lora.ts";
import type { CheckpointFile, CheckpointFiles, EngineOptions } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  initializeAdapter,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import { type ModelConfig, writeModelConfig } from "../../engine/checkpoint/config.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";

export const TINY: ModelConfig = {
  layers: 2,
  width: 12,
  heads: 4,
  kvHeads: 2,
  headWidth: 6,
  ffnWidth: 20,
  vocabulary: 37,
  ropeTheta: 10000,
  ropeScaling: null,
  epsilon: 1e-6,
  tied: true,
  queryKeyNorm: true,
  projectionBias: false,
};

export const OPTIONS: EngineOptions = { threads: 1, slots: 4, contextTokens: 200, microBatchTokens: 128 };
/** Micro-batches so large that full training runs layer by layer. */
export const LAYERED: Partial<EngineOptions> = { microBatchTokens: 1e8 };

export function tinyCheckpoint(config: ModelConfig = TINY, seed = 1, positions = 512): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  files.set("config.json", new TextEncoder().encode(writeModelConfig(config, positions)));
  files.set(MODEL_FILE, writeModel(parameterLayout(config), initializeWeights(config, seed)));
  return files;
}

/** Unlike in a fresh adapter, B is not zero, so that A has a gradient. */
export function tinyAdapter(config: ModelConfig = TINY, lora: LoraConfig = LORA, seed = 1): Map<string, Uint8Array> {
  const { layout, weights } = initializeAdapter(config, lora, [seed]);
  const { uniform } = stream("tiny adapter", seed);
  const moved = weights.map((value) => (value === 0 ? uniform() - 0.5 : value));
  return new Map([
    ...tinyCheckpoint(config, seed),
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(writeAdapterConfig(lora, "models/tiny"))],
    [ADAPTER_FILE, writeModel(layout, moved)],
  ]);
}

export const LORA: LoraConfig = { rank: 3, alpha: 5, targets: [...LoraTarget.options] };
export const UNTIED: ModelConfig = { ...TINY, layers: 1, tied: false, vocabulary: 41 };
export const BIASED: ModelConfig = { ...UNTIED, queryKeyNorm: false, projectionBias: true };
/** The row length of every matrix is a multiple of 32, the block size of quantization. */
export const WIDE: ModelConfig = { ...TINY, width: 64, heads: 4, kvHeads: 2, headWidth: 16, ffnWidth: 96 };

/** An adapter whose base is memory-mapped from a file in `folder`. */
export const mappedAdapter = (config: ModelConfig, folder: string): CheckpointFiles =>
  mapped(tinyAdapter(config), join(folder, MODEL_FILE));

/** The same checkpoint, its model memory-mapped from `path`. Replaces an earlier file, as `writeCheckpoint` does. */
export function mapped(files: ReadonlyMap<string, Uint8Array>, path: string): CheckpointFiles {
  const model = files.get(MODEL_FILE) ?? new Uint8Array();
  writeFileSync(`${path}.partial`, model);
  renameSync(`${path}.partial`, path);
  return new Map<string, CheckpointFile>([...files, [MODEL_FILE, { path, bytes: model.length }]]);
}
