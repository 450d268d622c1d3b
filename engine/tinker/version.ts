/**
 * @file `tinker.json`: a version whose weights are on a Tinker server. It replaces the safetensors files of a checkpoint; config and
 * tokenizer remain, so a version is a set of files on every engine.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { configBytes } from "../checkpoint/config.ts";
import { wholeFile } from "../checkpoint/files.ts";
import { TENSOR_FILE_NAMES } from "../checkpoint/tensors.ts";
import { TinkerPath } from "./client/messages.ts";
import { parseTinkerPolicy } from "./policy.ts";

export const TINKER_FILE = "tinker.json";
/** Hosted Tinker's default rank, for agents without `lora`. */
const DEFAULT_RANK = 32;

export const TinkerVersion = z.strictObject({
  /** The server's name for the base model, or the last path segment of that name. */
  baseModel: z.string().min(1),
  rank: z.int().positive(),
  /** Seed of the fresh adapter. */
  seed: z.int().nonnegative(),
  /** Weights and optimizer state that the server saved. Null: the fresh adapter, which behaves exactly like the base model. */
  weights: TinkerPath.nullable(),
});
export type TinkerVersion = z.infer<typeof TinkerVersion>;

export function readTinkerVersion(files: CheckpointFiles): TinkerVersion {
  const bytes = files.get(TINKER_FILE);
  if (bytes) return parseJson(TinkerVersion, wholeFile(bytes), TINKER_FILE, "checkpoint-damaged");
  throw new MgrpoError(
    "checkpoint-damaged",
    `${TINKER_FILE}: not in the checkpoint: it names the weights on the Tinker server: restore it, or write one with baseModel, rank, seed, and null as weights`,
  );
}

export function writeTinkerVersion(version: TinkerVersion): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(version, null, 2)}\n`);
}

const HuggingFaceConfig = z.looseObject({ vocab_size: z.int().positive() });

/** The top-level `vocab_size` of config.json, whatever the architecture. */
export function readVocabulary(files: CheckpointFiles): number {
  return parseJson(HuggingFaceConfig, configBytes(files), "config.json", "checkpoint-damaged").vocab_size;
}

/**
 * Version 0 of an agent: the files of its model folder without the weights, which stay on the server. A folder with a `tinker.json` (an
 * exported version) continues from that version. `name`: the last part of the agent's `model`; `seed`: the prefix of the fresh adapter's random
 * stream; `rank`: the agent's `lora.rank`.
 */
export function tinkerBase(
  policy: string,
  name: string,
  files: CheckpointFiles,
  seed: readonly (string | number)[],
  rank?: number,
): CheckpointFiles {
  const { baseModel } = parseTinkerPolicy(policy);
  const kept = [...files].filter(([file]) => !TENSOR_FILE_NAMES.test(file));
  const fresh: TinkerVersion = {
    baseModel: baseModel ?? name,
    rank: rank ?? DEFAULT_RANK,
    seed: stream(...seed, "tinker", "adapter").integer(2 ** 31),
    weights: null,
  };
  const version = files.has(TINKER_FILE) ? readTinkerVersion(files) : fresh;
  if (version.baseModel !== (baseModel ?? version.baseModel) || version.rank !== (rank ?? version.rank)) {
    throw new MgrpoError(
      "config-invalid",
      `${TINKER_FILE} is rank ${version.rank} on '${version.baseModel}', but the config says otherwise: set lora.rank and the model of policy '${policy}' to these, or leave both out`,
    );
  }
  return new Map([...kept, [TINKER_FILE, writeTinkerVersion(version)]]);
}
