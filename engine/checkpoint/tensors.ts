/**
 * @file Where the tensors of a model lie: in `model.safetensors`, or in the shards that `model.safetensors.index.json` names. As in
 * transformers, the single file comes first: a version that training published has one, whatever its base had.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { wholeFile } from "./files.ts";
import { readHeader, type TensorEntry } from "./safetensors.ts";

export const MODEL_FILE = "model.safetensors";
export const INDEX_FILE = "model.safetensors.index.json";

const Index = z.looseObject({ weight_map: z.record(z.string(), z.string()) });

export interface TensorPlace {
  readonly name: string;
  readonly fileName: string;
  readonly file: CheckpointFile;
  readonly entry: TensorEntry;
}

/** Reads headers only. Refuses what the index names and is not there. */
export function locateTensors(files: CheckpointFiles): Map<string, TensorPlace> {
  const single = files.get(MODEL_FILE);
  if (single) return new Map(placesIn(MODEL_FILE, single));
  const index = files.get(INDEX_FILE);
  if (!index) {
    const fault = `${MODEL_FILE}: not in the checkpoint, nor ${INDEX_FILE}: add the model's weights as safetensors`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
  const { weight_map } = parseJson(Index, wholeFile(index), INDEX_FILE, "checkpoint-damaged");
  const places = new Map<string, TensorPlace>();
  for (const fileName of new Set(Object.values(weight_map))) {
    const file = files.get(fileName);
    if (!file) {
      const fault = `${fileName}: not in the checkpoint, though ${INDEX_FILE} names it: add the missing shard`;
      throw new MgrpoError("checkpoint-damaged", fault);
    }
    for (const [name, place] of placesIn(fileName, file)) if (weight_map[name] === fileName) places.set(name, place);
  }
  for (const [name, fileName] of Object.entries(weight_map)) {
    if (places.has(name)) continue;
    const fault = `${fileName}: no tensor '${name}', which ${INDEX_FILE} says is there: restore both from their origin`;
    throw new MgrpoError("checkpoint-damaged", fault);
  }
  return places;
}

function placesIn(fileName: string, file: CheckpointFile): [string, TensorPlace][] {
  const { tensors } = readHeader(file, fileName);
  return [...tensors].map(([name, entry]) => [name, { name, fileName, file, entry }]);
}
