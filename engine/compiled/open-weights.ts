/**
 * @file Weights that do not change while open: a sampler's, or the base model of an adapter. Aligned tensors on disk are memory-mapped.
 * All others are read, converted to float32 and fed to every run.
 */
import { realpathSync } from "node:fs";
import type { CheckpointFiles } from "../../core/ports.ts";
import { type ModelConfig, readModelConfig } from "../checkpoint/config.ts";
import { fileIdentity } from "../checkpoint/files.ts";
import { type Parameter, parameterLayout } from "../checkpoint/parameters.ts";
import type { TensorType } from "../checkpoint/safetensors.ts";
import type { TensorLocation } from "../checkpoint/tensors.ts";
import { locateParameters, readWeights } from "../checkpoint/weights.ts";
import { type Feeds, tensor } from "./graph-session.ts";
import type { ExternalTensor, StoredType } from "./onnx/serialize.ts";
import type { QuantizedBase } from "./quantization/quantized-base.ts";

const STORED: Readonly<Record<TensorType, { readonly type: StoredType; readonly bytes: number }>> = {
  F32: { type: "float32", bytes: 4 },
  F16: { type: "float16", bytes: 2 },
  BF16: { type: "bfloat16", bytes: 2 },
};

export interface MappedTensor extends ExternalTensor {
  /** The file's `fileIdentity` when the weights were opened. */
  readonly identity: string;
}

/** Keyed by parameter. */
export type MappedTensors = ReadonlyMap<string, MappedTensor>;

export interface OpenWeights {
  readonly config: ModelConfig;
  /** Mapped by the session. */
  readonly external: MappedTensors;
  /** Fed to every run. */
  readonly feeds: Feeds;
}

/** All weights except those in `quantized`. */
export function openWeights(files: CheckpointFiles, quantized?: QuantizedBase): OpenWeights {
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const locations = locateParameters(files, config, layout);
  const external = new Map<string, MappedTensor>();
  const feeds: Feeds = {};
  const quantizedNames = new Set(quantized?.tensors.map(({ name }) => name));
  for (const parameter of layout.parameters.filter(({ name }) => !quantizedNames.has(name))) {
    const location = locations.get(parameter.name) as TensorLocation;
    const mapped = externalTensor(parameter, location);
    if (mapped) external.set(parameter.name, mapped);
    else feeds[parameter.name] = tensor(readWeights(location, new Float32Array(parameter.length)), parameter.shape);
  }
  return { config, external, feeds };
}

/** How a model is stored: whether all of it is memory-mapped, and the bytes of its tensors. */
export interface StoredWeights {
  readonly mapped: boolean;
  readonly bytes: number;
}

export function storedWeights(files: CheckpointFiles, config: ModelConfig): StoredWeights {
  const locations = [...locateParameters(files, config, parameterLayout(config)).values()];
  return {
    mapped: locations.every(isMemoryMapped),
    bytes: locations.reduce((sum, { entry }) => sum + entry.end - entry.begin, 0),
  };
}

/** Real paths of the files that hold memory-mapped weights, sorted. */
export function mappedFiles(files: CheckpointFiles, config: ModelConfig): string[] {
  const locations = [...locateParameters(files, config, parameterLayout(config)).values()];
  return [...new Set(locations.filter(isMemoryMapped).map(({ file }) => realpathSync(file.path)))].sort();
}

type OnDisk = TensorLocation & { readonly file: Exclude<TensorLocation["file"], Uint8Array> };

/** On disk and aligned to its element type. */
const isMemoryMapped = (location: TensorLocation): location is OnDisk =>
  !(location.file instanceof Uint8Array) && location.entry.begin % STORED[location.entry.type].bytes === 0;

function externalTensor({ shape: dims }: Parameter, location: TensorLocation): MappedTensor | undefined {
  if (!isMemoryMapped(location)) return undefined;
  const { file, entry } = location;
  const { type } = STORED[entry.type];
  // Files in a model hub's cache are symbolic links.
  const path = realpathSync(file.path);
  const identity = fileIdentity(path);
  return { type, path, identity, offset: entry.begin, bytes: entry.end - entry.begin, dims };
}
