/**
 * @file Weights that stay as they are while they are open: a sampler's, or the base under an adapter. What lies on disk is mapped from
 * there, without a copy; what is in memory already, or begins where its type may not, is read, converted, and fed.
 */
import { realpathSync } from "node:fs";
import type { CheckpointFiles } from "../../core/ports.ts";
import { type ModelConfig, readModelConfig } from "../checkpoint/config.ts";
import { type Parameter, parameterLayout } from "../checkpoint/parameters.ts";
import type { TensorType } from "../checkpoint/safetensors.ts";
import type { TensorPlace } from "../checkpoint/tensors.ts";
import { locateParameters, readWeights } from "../checkpoint/weights.ts";
import { type Feeds, tensor } from "./graph-session.ts";
import type { ExternalTensor, ExternalTensors, StoredType } from "./onnx/serialize.ts";

const STORED: Readonly<Record<TensorType, { readonly type: StoredType; readonly bytes: number }>> = {
  F32: { type: "float32", bytes: 4 },
  F16: { type: "float16", bytes: 2 },
  BF16: { type: "bfloat16", bytes: 2 },
};

export interface OpenWeights {
  readonly config: ModelConfig;
  /** For the session. */
  readonly external: ExternalTensors;
  /** For every run of it. */
  readonly feeds: Feeds;
}

export function openWeights(files: CheckpointFiles): OpenWeights {
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const places = locateParameters(files, config, layout);
  const external = new Map<string, ExternalTensor>();
  const feeds: Feeds = {};
  for (const parameter of layout.parameters) {
    const place = places.get(parameter.name) as TensorPlace;
    const mapped = externalTensor(parameter, place);
    if (mapped) external.set(parameter.name, mapped);
    else feeds[parameter.name] = tensor(readWeights(place, new Float32Array(parameter.length)), parameter.shape);
  }
  return { config, external, feeds };
}

/** What is on disk, and begins where its type may. */
export const isMemoryMapped = ({ file, entry }: TensorPlace): boolean =>
  !(file instanceof Uint8Array) && entry.begin % STORED[entry.type].bytes === 0;

function externalTensor({ shape: dims }: Parameter, place: TensorPlace): ExternalTensor | undefined {
  const { file, entry } = place;
  if (!isMemoryMapped(place) || file instanceof Uint8Array) return undefined;
  // The files of a model hub's cache are links to others.
  const { type } = STORED[entry.type];
  return { type, path: realpathSync(file.path), offset: entry.begin, bytes: entry.end - entry.begin, dims };
}
