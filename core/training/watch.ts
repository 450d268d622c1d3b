/**
 * @file Checkpoints that somebody else puts under a prefix: when one is complete, and as which job a team with it is evaluated.
 *
 *     seen ──all needed files, and the marker or no change since the look before──> complete ──> evaluated, once per content and suite
 */
import type { CheckpointLook, FileLook } from "../checkpoint-source.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { canonicalJson } from "../contracts/parse.ts";
import type { WatchedTeam } from "../contracts/watched-team.ts";
import type { Hash } from "../ports.ts";

/** Files without which no checkpoint can be opened: of a model, in one file or in shards, or of an adapter, which names its base. */
const NEEDED = [
  ["config.json", "model.safetensors", "tokenizer.json"],
  ["config.json", "model.safetensors.index.json", "tokenizer.json"],
  ["adapter_config.json", "adapter_model.safetensors"],
];
/** As every writer of shards names them: each name says how many there are. */
const SHARD = /^(.+)-(\d+)-of-(\d+)\.safetensors$/;
/** An empty file of this name says that all others are there. */
export const MARKER = "_SUCCESS";

/** Names of the checkpoints that are complete now, in order. */
export function completeCheckpoints(before: CheckpointLook, now: CheckpointLook): string[] {
  return [...now]
    .filter(([name, files]) => {
      const isThere = (file: string) => (files.get(file)?.bytes ?? 0) > 0;
      if (!NEEDED.some((needed) => needed.every(isThere)) || !shardsOf(files.keys()).every(isThere)) return false;
      const seen = before.get(name);
      return files.has(MARKER) || (seen !== undefined && stateOf(seen) === stateOf(files));
    })
    .map(([name]) => name)
    .sort();
}

/** All the shards that go with those of these files. Shards that only the index names are missed when it is read. */
function shardsOf(files: Iterable<string>): string[] {
  return [...files].flatMap((file) => {
    const [, stem = "", digits = "", count = "0"] = SHARD.exec(file) ?? [];
    const places = Array.from({ length: Number(count) }, (_, i) => String(i + 1).padStart(digits.length, "0"));
    return places.map((place) => `${stem}-${place}-of-${count}.safetensors`);
  });
}

/** What a checkpoint's files look like from outside: another text means that somebody changed it. */
export function stateOf(files: ReadonlyMap<string, FileLook>): string {
  return canonicalJson(Object.fromEntries([...files].filter(([name]) => name !== MARKER)));
}

/** The id of an evaluation: the same files of every agent, asked the same, are the same job. `files`: agent -> file -> SHA-256. */
export function watchedJob(
  { recipe, arm, seed, set }: WatchedTeam,
  files: Readonly<Record<string, Readonly<Record<string, string>>>>,
  suite: EvaluationSuite,
  hash: Hash,
): string {
  return `${suite.name}-${hash(canonicalJson({ recipe, arm, seed, set, files, suite })).slice(0, 16)}`;
}
