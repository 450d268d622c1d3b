/**
 * @file `tinker.json`: what a version is made of when its weights lie on a Tinker server. It stands where a checkpoint has its
 * safetensors files, beside the config and the tokenizer, so that a version is a set of files on every engine.
 */
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { wholeFile } from "../checkpoint/files.ts";
import { TinkerPath } from "./client/messages.ts";
import { parseTinkerPolicy } from "./policy.ts";

export const TINKER_FILE = "tinker.json";
/** What hosted Tinker takes when it is not told. */
const DEFAULT_RANK = 32;

export const TinkerVersion = z.strictObject({
  /** As the server calls it; the last part of its name will do. */
  baseModel: z.string().min(1),
  rank: z.int().positive(),
  /** Of the fresh adapter. */
  seed: z.int().nonnegative(),
  /** Weights and optimizer state as the server saved them. Null: the fresh adapter, which changes nothing of the base model. */
  weights: TinkerPath.nullable(),
});
export type TinkerVersion = z.infer<typeof TinkerVersion>;

export function readTinkerVersion(files: CheckpointFiles): TinkerVersion {
  const bytes = files.get(TINKER_FILE);
  if (bytes) return parseJson(TinkerVersion, wholeFile(bytes), TINKER_FILE, "checkpoint-damaged");
  throw new MgrpoError(
    "checkpoint-damaged",
    `${TINKER_FILE}: not in the checkpoint: it names the weights on the Tinker server`,
  );
}

export function writeTinkerVersion(version: TinkerVersion): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(version, null, 2)}\n`);
}

const HuggingFaceConfig = z.looseObject({ vocab_size: z.int().positive() });

/** Of the model that the tokenizer belongs to, whatever its architecture. */
export function readVocabulary(files: CheckpointFiles): number {
  const bytes = files.get("config.json");
  if (!bytes)
    throw new MgrpoError("checkpoint-damaged", "config.json: not in the checkpoint: add the model's config.json");
  return parseJson(HuggingFaceConfig, wholeFile(bytes), "config.json", "checkpoint-damaged").vocab_size;
}

/**
 * Version 0 of an agent: the folder's files without weights, which are the server's. A folder that holds a `tinker.json` (an
 * exported version) is gone on from. `name`: the folder's; `run`: names the stream that the fresh adapter is drawn from.
 */
export function tinkerBase(
  policy: string,
  name: string,
  files: CheckpointFiles,
  run: readonly (string | number)[],
): CheckpointFiles {
  const { baseModel, rank } = parseTinkerPolicy(policy);
  const kept = [...files].filter(([file]) => !/\.safetensors(\.index\.json)?$/.test(file));
  const fresh: TinkerVersion = {
    baseModel: baseModel ?? name,
    rank: rank ?? DEFAULT_RANK,
    seed: stream(...run, "tinker", "adapter").integer(2 ** 31),
    weights: null,
  };
  const version = files.has(TINKER_FILE) ? readTinkerVersion(files) : fresh;
  if (version.baseModel !== (baseModel ?? version.baseModel) || version.rank !== (rank ?? version.rank)) {
    throw new MgrpoError(
      "config-invalid",
      `${TINKER_FILE} is rank ${version.rank} on '${version.baseModel}', policy '${policy}' says otherwise: leave that out of the policy`,
    );
  }
  return new Map([...kept, [TINKER_FILE, writeTinkerVersion(version)]]);
}
