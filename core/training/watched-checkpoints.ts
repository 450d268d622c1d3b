/**
 * @file Checkpoints that another program writes under a watched prefix: when one is complete, and the id of the job that evaluates it.
 *
 *     seen ──all required files, and the marker or no change since the last poll──> complete ──> evaluated, once per content and suite
 */
import type { CheckpointListing, FileState } from "../checkpoint-source.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { canonicalJson } from "../contracts/parse.ts";
import type { WatchedTeam } from "../contracts/watched-team.ts";
import type { Hash } from "../ports.ts";

/** Files that a checkpoint must have: a model in one file, a model in shards, or an adapter. */
const REQUIRED = [
  ["config.json", "model.safetensors", "tokenizer.json"],
  ["config.json", "model.safetensors.index.json", "tokenizer.json"],
  ["adapter_config.json", "adapter_model.safetensors"],
];
/** The usual names of shards. Each includes the total. */
const SHARD = /^(.+)-(\d+)-of-(\d+)\.safetensors$/;
/** An empty file of this name marks the checkpoint as complete. */
export const MARKER = "_SUCCESS";

/** Names of the complete checkpoints, sorted. */
export function completeCheckpoints(before: CheckpointListing, now: CheckpointListing): string[] {
  return [...now]
    .filter(([name, files]) => {
      const isPresent = (file: string) => (files.get(file)?.bytes ?? 0) > 0;
      if (!REQUIRED.some((required) => required.every(isPresent)) || !shardsOf(files.keys()).every(isPresent))
        return false;
      const seen = before.get(name);
      return files.has(MARKER) || (seen !== undefined && fingerprintOf(seen) === fingerprintOf(files));
    })
    .map(([name]) => name)
    .sort();
}

/** All shards of the sets that these files belong to. A missing shard that only the index names is detected when the index is read. */
function shardsOf(files: Iterable<string>): string[] {
  return [...files].flatMap((file) => {
    const [, stem = "", digits = "", count = "0"] = SHARD.exec(file) ?? [];
    const numbers = Array.from({ length: Number(count) }, (_, i) => String(i + 1).padStart(digits.length, "0"));
    return numbers.map((number) => `${stem}-${number}-of-${count}.safetensors`);
  });
}

/** Sizes and stamps of a checkpoint's files, the marker aside, as text. It changes when a file does. */
export function fingerprintOf(files: ReadonlyMap<string, FileState>): string {
  return canonicalJson(Object.fromEntries([...files].filter(([name]) => name !== MARKER)));
}

/** The id of an evaluation. The same team settings, the same files of every agent and the same suite are the same job. `files`: agent -> file -> SHA-256. */
export function watchedJobId(
  { recipe, arm, seed, set }: WatchedTeam,
  files: Readonly<Record<string, Readonly<Record<string, string>>>>,
  suite: EvaluationSuite,
  hash: Hash,
): string {
  return `${suite.name}-${hash(canonicalJson({ recipe, arm, seed, set, files, suite })).slice(0, 16)}`;
}
