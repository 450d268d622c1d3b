/** @file A checkpoint's weights: Hugging Face files <-> one flat vector. Files of trained state: shards.ts. */
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { type ModelConfig, readModelConfig } from "./config.ts";
import { HEAD, type ParameterLayout, parameterLayout, viewOf, views } from "./parameters.ts";
import { type NamedTensor, readTensor, type WrittenType, writeSafetensors } from "./safetensors.ts";
import { INDEX_FILE, locateTensors, MODEL_FILE, type TensorLocation } from "./tensors.ts";

const CHECKED_ELEMENTS = 1 << 20;

export interface Checkpoint {
  readonly config: ModelConfig;
  readonly layout: ParameterLayout;
  /** All parameters, in the layout's order. */
  readonly weights: Float32Array;
}

/** Reads `config.json` and the weights, tensor by tensor straight into the vector. */
export function parseCheckpoint(files: CheckpointFiles): Checkpoint {
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const locations = locateParameters(files, config, layout);
  const weights = new Float32Array(layout.length);
  for (const [name, values] of views(layout, weights)) readWeights(locations.get(name) as TensorLocation, values);
  return { config, layout, weights };
}

const USE_ONE_MODEL = "use the config.json and the weights of one model";

/** Locates each parameter. Throws, naming the tensor, if one is missing, extra or misshapen. */
export function locateParameters(
  files: CheckpointFiles,
  config: ModelConfig,
  layout: ParameterLayout,
): Map<string, TensorLocation> {
  const found = locateTensors(files);
  const locations = new Map<string, TensorLocation>();
  for (const { name, shape } of layout.parameters) {
    const location = found.get(name);
    if (!location)
      throw new MgrpoError(
        "checkpoint-damaged",
        `${fileOf(files)}: no tensor '${name}', which config.json requires: ${USE_ONE_MODEL}`,
      );
    if (location.entry.shape.join() !== shape.join()) {
      throw new MgrpoError(
        "checkpoint-damaged",
        `${location.fileName}: '${name}' has shape [${location.entry.shape}], but config.json says [${shape}]: ${USE_ONE_MODEL}`,
      );
    }
    locations.set(name, location);
    found.delete(name);
  }
  for (const [name, { fileName }] of found) {
    if (isRedundant(name, config)) continue;
    throw new MgrpoError(
      "engine-unsupported",
      `${fileName}: tensor '${name}' is not part of the model that config.json describes: ${USE_ONE_MODEL}`,
    );
  }
  return locations;
}

/** The file that lists the tensors. */
const fileOf = (files: CheckpointFiles): string => (files.has(MODEL_FILE) ? MODEL_FILE : INDEX_FILE);

/** Some writers repeat the tied head; older ones store the rotary frequencies, which follow from config.json. */
const isRedundant = (name: string, { tied }: ModelConfig): boolean =>
  (tied && name === HEAD) || name.endsWith(".rotary_emb.inv_freq");

/** Fills `into` from element `from` of a tensor, as float32. Refuses NaN and infinity, which would spread to every token. */
export function readWeights(
  { name, fileName, file, entry }: TensorLocation,
  into: Float32Array,
  from = 0,
): Float32Array {
  readTensor(file, entry, into, from);
  for (let i = 0; i < into.length; i++) {
    if (Number.isFinite(into[i])) continue;
    throw new MgrpoError(
      "checkpoint-damaged",
      `${fileName}: '${name}' holds ${into[i]} at element ${from + i} of [${entry.shape}]: take a checkpoint from before its training diverged`,
    );
  }
  return into;
}

/** Runs the checks of parseCheckpoint in bounded memory. */
export function checkCheckpoint(files: CheckpointFiles): ModelConfig {
  const config = readModelConfig(files);
  const buffer = new Float32Array(CHECKED_ELEMENTS);
  for (const location of locateParameters(files, config, parameterLayout(config)).values()) {
    const { length } = location.entry;
    for (let at = 0; at < length; at += buffer.length) readWeights(location, buffer.subarray(0, length - at), at);
  }
  return config;
}

/** Files of another version of the same model: `config.json` may be omitted; if present, it must describe that model. */
export function withConfigOf(files: CheckpointFiles, config: ModelConfig, opened: CheckpointFiles): CheckpointFiles {
  const own = opened.get("config.json");
  if (!files.has("config.json") && own) return new Map([...files, ["config.json", own]]);
  if (JSON.stringify(readModelConfig(files)) === JSON.stringify(config)) return files;
  throw new MgrpoError(
    "checkpoint-damaged",
    "config.json: it describes a different model from the one this trainer was opened with: load a version of that model",
  );
}

/** All parameters of a small layout as one safetensors file. */
export function writeModel(layout: ParameterLayout, weights: Float32Array, dtype: WrittenType = "F32"): Uint8Array {
  return writeSafetensors(new Map(namedTensors(layout, weights)), { format: "pt" }, dtype);
}

/** Each parameter of a flat vector as a tensor; no copy. */
export const namedTensors = (layout: ParameterLayout, weights: Float32Array): [name: string, NamedTensor][] =>
  layout.parameters.map((parameter) => [
    parameter.name,
    { shape: parameter.shape, values: viewOf(parameter, weights) },
  ]);
