/**
 * @file Locates the tensors of a model: in `model.safetensors`, or in the shards that `model.safetensors.index.json` names. As in transformers,
 * the single file takes precedence. Also locates Adam's moments and the weights of an adapter.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { wholeFile } from "./files.ts";
import { readHeader, type TensorEntry } from "./safetensors.ts";

export const MODEL_FILE = "model.safetensors";
export const indexFileOf = (single: string): string => `${single}.index.json`;
export const INDEX_FILE = indexFileOf(MODEL_FILE);
/** Matches the names of tensor files, shards and their indices included: of the model, of an adapter, or of the optimizer. */
export const TENSOR_FILE_NAMES = /\.safetensors(\.index\.json)?$/;

const Index = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

export interface TensorLocation {
  readonly name: string;
  readonly fileName: string;
  readonly file: CheckpointFile;
  readonly entry: TensorEntry;
}

/** The files in which a model's weights are, an index of shards included; none if the checkpoint has no weights. Reads the index alone. */
export function weightFilesOf(files: CheckpointFiles): string[] {
  if (files.has(MODEL_FILE)) return [MODEL_FILE];
  const index = files.get(INDEX_FILE);
  return index ? [INDEX_FILE, ...shardsIn(index, INDEX_FILE).shards] : [];
}

function shardsIn(index: CheckpointFile, name: string) {
  const { weight_map } = parseJson(Index, wholeFile(index), name, "checkpoint-damaged");
  return { weight_map, shards: new Set(Object.values(weight_map)) };
}

/** Reads the index and headers only. Refuses an index that names missing shards or tensors. */
export function locateTensors(files: CheckpointFiles, single = MODEL_FILE): Map<string, TensorLocation> {
  const whole = files.get(single);
  if (whole) return new Map(tensorsOf(single, whole));
  const indexFile = indexFileOf(single);
  const index = files.get(indexFile);
  if (!index) {
    const fault = `the checkpoint has neither ${single} nor ${indexFile}: add the model's weights as safetensors`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
  const { weight_map, shards } = shardsIn(index, indexFile);
  const locations = new Map<string, TensorLocation>();
  for (const fileName of shards) {
    const file = files.get(fileName);
    if (!file) {
      const fault = `${fileName}: not in the checkpoint, though ${indexFile} names it: add the missing shard`;
      throw new MgrpoError("checkpoint-damaged", fault);
    }
    for (const [name, location] of tensorsOf(fileName, file))
      if (weight_map[name] === fileName) locations.set(name, location);
  }
  for (const [name, fileName] of Object.entries(weight_map)) {
    if (locations.has(name)) continue;
    const fault = `${fileName}: no tensor '${name}', which ${indexFile} lists there: download both again, or restore them from a backup`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
  return locations;
}

function tensorsOf(fileName: string, file: CheckpointFile): [string, TensorLocation][] {
  const { tensors } = readHeader(file, fileName);
  return [...tensors].map(([name, entry]) => [name, { name, fileName, file, entry }]);
}
