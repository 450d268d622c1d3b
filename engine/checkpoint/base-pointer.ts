/**
 * @file Which base model an adapter was trained on: `base.json`, written beside the adapter, holds the base's location and the SHA-256 of
 * its config and of each weight file. The adapter is opened only on that base, since any base of the same shape would fit.
 */
import { resolve } from "node:path";
import { BasePointer, type Part } from "../../core/contracts/checkpoint.ts";
import { hubModelName } from "../../core/contracts/hub-model.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { sha256OfFile } from "../hash.ts";
import { ADAPTER_CONFIG_FILE, ADAPTER_FILE, type AdapterConfig } from "./adapter.ts";
import { wholeFile } from "./files.ts";
import { OPTIMIZER_FILE_NAMES } from "./shards.ts";
import { TENSOR_FILE_NAMES, weightFilesOf } from "./tensors.ts";

/** The file beside an adapter that holds its `BasePointer`. */
export const BASE_FILE = "base.json";

/** Whether a file of an adapter's checkpoint belongs to its base: the config, or the weights, in one file or in shards. */
export const isBaseFile = (name: string): boolean =>
  name === "config.json" || (TENSOR_FILE_NAMES.test(name) && name !== ADAPTER_FILE && !OPTIMIZER_FILE_NAMES.test(name));

/** The base as this program recorded it: with a revision if it is on the hub. */
export function recordedBase({ base = "", revision }: AdapterConfig): string {
  if (revision !== undefined) return hubModelName({ repository: base, revision });
  return base.startsWith("s3://") ? base : resolve(base);
}

/** The content of `base.json`. `files`: those of the adapter's checkpoint, its base included. */
export function writeBasePointer(path: string, files: Readonly<Record<string, Part>>): Uint8Array {
  const ofBase = Object.entries(files).filter(([name]) => isBaseFile(name));
  const pointer: BasePointer = { path, files: Object.fromEntries(ofBase) };
  return new TextEncoder().encode(`${JSON.stringify(pointer, null, 2)}\n`);
}

/** The pointer beside an adapter in `folder`; undefined: there is none. Throws `checkpoint-damaged` if it is malformed. */
export function readBasePointer(adapter: CheckpointFiles, folder: string): BasePointer | undefined {
  const file = adapter.get(BASE_FILE);
  return file && parseJson(BasePointer, wholeFile(file), `${folder}: ${BASE_FILE}`, "checkpoint-damaged");
}

/**
 * Rejects with MgrpoError `checkpoint-damaged` if the config or a weight file that is read from `baseFiles` is missing or is not the one that the
 * adapter's `base.json` names, or if `base.json` is malformed. Further copies of the weights are not compared: other programs may add some to the
 * hub's cache.
 * An adapter without `base.json` is not checked. `folder` is where the adapter is, `base` where its base is.
 */
export async function refuseOtherBase(
  adapter: CheckpointFiles,
  folder: string,
  baseFiles: CheckpointFiles,
  base: string,
): Promise<void> {
  const pointer = readBasePointer(adapter, folder);
  if (!pointer) return;
  const { files } = pointer;
  const weights = weightFilesOf(baseFiles);
  for (const name of weights.length > 0 ? ["config.json", ...weights] : Object.keys(files)) {
    const file = baseFiles.get(name);
    if (file && (await sha256OfFile(file)) === files[name]?.sha256) continue;
    throw new MgrpoError(
      "checkpoint-damaged",
      `${folder} is an adapter of another base model: ${name} in ${base} is ${file ? "not the file that it was trained on" : "missing"}; put its own base model there, or name it in ${ADAPTER_CONFIG_FILE}`,
    );
  }
}
