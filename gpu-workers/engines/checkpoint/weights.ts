/** @file Weights and optimizer state of a checkpoint: files in the Hugging Face layout <-> one flat vector each. */
import { MgrpoError } from "../../../core/errors.ts";
import type { CheckpointFiles } from "../../../core/ports.ts";
import { type AdamState, freshAdamState } from "../model/adamw.ts";
import { type ModelConfig, readModelConfig } from "./config.ts";
import { HEAD, type Layout, parameterLayout, views } from "./parameters.ts";
import { type NamedTensor, readSafetensors, writeSafetensors } from "./safetensors.ts";

export const MODEL_FILE = "model.safetensors";
export const OPTIMIZER_FILE = "optimizer.safetensors";

export interface Checkpoint {
  readonly config: ModelConfig;
  readonly layout: Layout;
  /** All parameters, in the layout's order. */
  readonly weights: Float32Array;
}

/** Reads `config.json` and every safetensors file but the optimizer's; what is missing, left over or of the wrong shape is named. */
export function readCheckpoint(files: CheckpointFiles): Checkpoint {
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const weights = new Float32Array(layout.length);
  const found = new Map<string, { file: string; tensor: NamedTensor }>();
  for (const [file, bytes] of files) {
    if (!file.endsWith(".safetensors") || file === OPTIMIZER_FILE) continue;
    for (const [name, tensor] of readSafetensors(bytes, file).tensors) found.set(name, { file, tensor });
  }
  if (found.size === 0) {
    throw new MgrpoError("checkpoint-damaged", `${MODEL_FILE}: not in the checkpoint: add the model's weights`);
  }
  for (const { name, shape, offset } of layout.parameters) {
    const entry = found.get(name);
    if (!entry)
      throw new MgrpoError("checkpoint-damaged", `${MODEL_FILE}: no tensor '${name}': config.json asks for it`);
    if (entry.tensor.shape.join() !== shape.join()) {
      throw new MgrpoError(
        "checkpoint-damaged",
        `${entry.file}: '${name}' has shape [${entry.tensor.shape}], config.json says [${shape}]: they belong to different models`,
      );
    }
    weights.set(entry.tensor.values, offset);
    found.delete(name);
  }
  // Some writers repeat the tied head.
  if (config.tied) found.delete(HEAD);
  const [extra] = found;
  if (extra) {
    throw new MgrpoError(
      "engine-unsupported",
      `${extra[1].file}: tensor '${extra[0]}' is no part of the model that config.json describes`,
    );
  }
  return { config, layout, weights };
}

/** Files of another version of the same model: `config.json` may be left out, and must not differ. */
export function withConfigOf(files: CheckpointFiles, config: ModelConfig, opened: CheckpointFiles): CheckpointFiles {
  const own = opened.get("config.json");
  if (!files.has("config.json") && own) return new Map([...files, ["config.json", own]]);
  if (JSON.stringify(readModelConfig(files)) === JSON.stringify(config)) return files;
  throw new MgrpoError("checkpoint-damaged", "config.json: another model than the one this trainer was opened with");
}

export function writeModel(layout: Layout, weights: Float32Array): Uint8Array {
  const parts = views(layout, weights);
  const tensors = layout.parameters.map(({ name, shape }): [string, NamedTensor] => [
    name,
    { shape, values: parts.get(name) ?? new Float32Array() },
  ]);
  return writeSafetensors(new Map(tensors), { format: "pt" });
}

/** Tensors `m` and `v`, flat in the order of the model's parameters; the number of updates in the header. */
export function writeOptimizer(state: AdamState): Uint8Array {
  const flat = (values: Float32Array): NamedTensor => ({ shape: [values.length], values });
  return writeSafetensors(
    new Map([
      ["m", flat(state.m)],
      ["v", flat(state.v)],
    ]),
    { step: String(state.step) },
  );
}

export function readOptimizer(files: CheckpointFiles, length: number): AdamState {
  const bytes = files.get(OPTIMIZER_FILE);
  if (!bytes) return freshAdamState(length);
  const { tensors, metadata } = readSafetensors(bytes, OPTIMIZER_FILE);
  const [m, v] = [tensors.get("m")?.values, tensors.get("v")?.values];
  const step = Number(metadata["step"]);
  if (m?.length !== length || v?.length !== length || !Number.isInteger(step)) {
    throw new MgrpoError(
      "checkpoint-damaged",
      `${OPTIMIZER_FILE}: not the state of this model (${length} parameters): remove it to start afresh`,
    );
  }
  return { m, v, step };
}
