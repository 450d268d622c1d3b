/**
 * @file Checkpoints that another program writes at a watched location: when one is complete, and the id of the job that evaluates it.
 *
 *     seen ──all required files, and the marker or no change since the last poll──> complete ──> evaluated, once per
 *                                                                                                team settings, files of all agents, suite and
 *                                                                                                questions
 */
import type { CheckpointListing, FileState } from "../checkpoint-source.ts";
import type { EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { canonicalJson } from "../contracts/parse.ts";
import type { Question, SuiteQuestions } from "../contracts/question.ts";
import type { WatchedTeam } from "../contracts/watched-team.ts";
import type { Hash } from "../ports.ts";

/** Files that a checkpoint must have: a model in one file, a model in shards, or an adapter. */
const REQUIRED = [
  ["config.json", "model.safetensors", "tokenizer.json"],
  ["config.json", "model.safetensors.index.json", "tokenizer.json"],
  ["adapter_config.json", "adapter_model.safetensors"],
];
/** The usual names of shards. Each includes the total. */
const SHARD = /(.+)-(\d+)-of-(\d+)\.safetensors$/;
/** A file of this name marks the checkpoint as complete. */
export const MARKER = "_SUCCESS";

/** Names of the complete checkpoints, sorted. */
export function completeCheckpoints(before: CheckpointListing, now: CheckpointListing): string[] {
  return [...now]
    .filter(([name, files]) => {
      const isPresent = (file: string) => (files.get(file)?.bytes ?? 0) > 0;
      if (!REQUIRED.some((required) => required.every(isPresent)) || !hasAllShards(files)) return false;
      const seen = before.get(name);
      return files.has(MARKER) || (seen !== undefined && fingerprintOf(seen) === fingerprintOf(files));
    })
    .map(([name]) => name)
    .sort();
}

/** Whether every set of shards has as many as its names state. A missing shard that only the index names is detected when the index is read. */
function hasAllShards(files: ReadonlyMap<string, FileState>): boolean {
  const sets = new Map<string, { readonly total: number; readonly numbers: Set<number> }>();
  for (const [file, { bytes }] of files) {
    const shard = SHARD.exec(file);
    if (!shard) continue;
    const [, stem, number, count] = shard;
    const { total, numbers } = sets.get(`${stem} ${count}`) ?? { total: Number(count), numbers: new Set<number>() };
    sets.set(`${stem} ${count}`, { total, numbers });
    const i = Number(number);
    if (bytes > 0 && i >= 1 && i <= total) numbers.add(i);
  }
  return [...sets.values()].every(({ total, numbers }) => numbers.size === total);
}

/** Sizes and stamps of a checkpoint's files, the marker aside, as text. It changes when a file does. */
export function fingerprintOf(files: ReadonlyMap<string, FileState>): string {
  return canonicalJson(Object.fromEntries([...files].filter(([name]) => name !== MARKER)));
}

/**
 * The id of an evaluation. The same team settings, the same files of every agent, the same suite and the same questions give the same id.
 * `files`: agent -> file -> SHA-256. `questions`: all that the suite asks, with the judge's criteria if it has any.
 */
export function watchedJobId(
  { recipe, arm, seed, set }: WatchedTeam,
  files: Readonly<Record<string, Readonly<Record<string, string>>>>,
  { suite, questions }: { readonly suite: EvaluationSuite; readonly questions: SuiteQuestions | readonly Question[] },
  hash: Hash,
): string {
  const id = hash(canonicalJson({ recipe, arm, seed, set, files, suite, questions })).slice(0, 16);
  return `${suite.name}-${id}`;
}
