/**
 * @file `mgrpo eval --watch <folder or s3://bucket/prefix> --team <file>`: evaluates each checkpoint that somebody puts there, once,
 * as one agent of a team whose other agents stay.
 *
 *     look ──complete, and not handled as it is now──> its suites that have no result yet ──> one line and one file each ──> look …
 *     waits for: the next look      unblocked by: time; Ctrl-C ends it
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import colors from "picocolors";
import { openFolderSource } from "../adapters/checkpoints/folder.ts";
import { openS3Source } from "../adapters/checkpoints/s3.ts";
import type { CheckpointListing, CheckpointSource, FileState } from "../core/checkpoint-source.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { type WatchedEvaluation, WatchedTeam } from "../core/contracts/watched-team.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { resolveConfig } from "../core/training/resolve-config.ts";
import { completeCheckpoints, fingerprintOf, watchedJobId } from "../core/training/watched-checkpoints.ts";
import { sha256 } from "../engine/hash.ts";
import { openRecipe } from "../recipes/registry.ts";
import { CHECKPOINT_FILE, hashesOf, readBases } from "./local/base-models.ts";
import { describeLosses, evaluateTeam, resultOf } from "./local/evaluate-team.ts";
import { writeAtomically } from "./local/run-folder.ts";
import { type Stop, watchForStop } from "./local/stop.ts";
import { readQuestions } from "./questions.ts";
import { accuracy } from "./terminal/columns.ts";

export interface WatchOptions {
  /** File that holds a WatchedTeam. */
  readonly team: string;
  /** Seconds between two looks. */
  readonly every: number;
  /** Folder of the results. */
  readonly results: string;
}

export async function watch(place: string, { team: file, every, results }: WatchOptions): Promise<void> {
  if (!existsSync(file)) throw new MgrpoError("not-found", `--team ${file}: no such file`);
  const team = parseJson(WatchedTeam, readFileSync(file), `--team ${file}`, "config-invalid");
  const config = await teamConfig(team);
  const recipe = await openRecipe(team.recipe);
  const questions = await readQuestions(recipe, config);
  const source = place.startsWith("s3://") ? openS3Source(place) : openFolderSource(place);
  mkdirSync(results, { recursive: true });
  const stop = watchForStop();

  async function evaluate(checkpoint: string, files: ReadonlyMap<string, FileState>): Promise<void> {
    const names = [...files.keys()].filter((name) => CHECKPOINT_FILE.test(name)).sort();
    const given = new Map([[team.agent, await source.read(checkpoint, names)]]);
    const bases = await readBases(config, "evaluate", given);
    const hashes = await hashesOf(bases);
    const pathOf = (job: string) => join(results, `${job}.json`);
    const jobs = new Map(
      config.evaluation.suites
        .map((suite) => [suite, watchedJobId(team, hashes, suite, sha256)] as const)
        .filter(([, job]) => !existsSync(pathOf(job))),
    );
    if (jobs.size === 0) return;
    const open = { ...config, evaluation: { ...config.evaluation, suites: [...jobs.keys()] } };
    const idOf = new Map([...jobs].map(([{ name }, job]) => [name, job]));
    const lost: string[] = [];
    await evaluateTeam(open, bases, questions, stop, async (told) => {
      const { suite, n, correct, runs, interval } = told.job;
      const words = describeLosses(await resultOf(told));
      // A score of what an outage has left would stay for good.
      if (words !== undefined) return void lost.push(`suite ${suite}: ${words}`);
      const job = idOf.get(suite) ?? "";
      const found = {
        kind: "evaluation",
        checkpoint,
        agent: team.agent,
        job,
        suite,
        n,
        correct,
        runs,
        interval,
      } as const;
      writeAtomically(pathOf(job), `${JSON.stringify(found, null, 2)}\n`);
      print(found);
    });
    if (lost.length === 0) return;
    const again = `${checkpoint}: ${lost.join("; ")}; evaluated again at the next look`;
    throw new MgrpoError("endpoint-unavailable", again, { retryable: true });
  }

  try {
    await watchCheckpoints(source, every, stop.signal, evaluate, (line) => console.log(JSON.stringify(line)));
    stop.rethrow();
  } finally {
    stop.dispose();
  }
}

/** Looks until the signal aborts. What one checkpoint or an outage of the source spoils is told, and does not end the watch. */
export async function watchCheckpoints(
  source: CheckpointSource,
  everySeconds: number,
  signal: Stop["signal"],
  evaluate: (checkpoint: string, files: ReadonlyMap<string, FileState>) => Promise<void>,
  tell: (line: { kind: "refused" | "retry"; checkpoint?: string; code: string; message: string }) => void,
): Promise<void> {
  const handled = new Map<string, string>();
  let before: CheckpointListing = new Map();
  let told = "";
  while (!signal.aborted) {
    try {
      const now = await source.list();
      for (const name of handled.keys()) if (!now.has(name)) handled.delete(name);
      for (const checkpoint of completeCheckpoints(before, now)) {
        const files = now.get(checkpoint) ?? new Map<string, FileState>();
        if (signal.aborted || handled.get(checkpoint) === fingerprintOf(files)) continue;
        await evaluate(checkpoint, files).catch((error: unknown) => {
          // Halted by what refuses to work for any checkpoint.
          if (!isMgrpoError(error) || error.retryable || error.code === "run-halted") throw error;
          tell({ kind: "refused", checkpoint, code: error.code, message: error.message });
        });
        handled.set(checkpoint, fingerprintOf(files));
      }
      before = now;
      told = "";
    } catch (error) {
      if (!isMgrpoError(error) || !error.retryable) throw error;
      if (error.message !== told) tell({ kind: "retry", code: error.code, message: error.message });
      told = error.message;
    }
    await pause(everySeconds * 1000, undefined, { signal }).catch(() => {});
  }
}

/** The config of the team; the watched agent's model comes later. */
async function teamConfig({ recipe: name, arm, seed, agent, models, set }: WatchedTeam): Promise<RunConfig> {
  const fixed = Object.entries(models).map(([other, model]) => `agents.${other}.model=${model}`);
  const settings = ["budget={}", ...set, ...fixed, "steps=1"];
  const config = resolveConfig(await openRecipe(name), { run: "eval", recipe: name, arm, seed, set: settings });
  if (!config.agents[agent] || models[agent] !== undefined) {
    const why = config.agents[agent] ? "is the one watched: leave it out of models" : "is no agent of the recipe";
    throw new MgrpoError("config-invalid", `--team: agent '${agent}' ${why}`);
  }
  if (config.evaluation.suites.length > 0) return config;
  throw new MgrpoError("config-invalid", `recipe '${name}' has no evaluation.suites: add one`);
}

function print(found: WatchedEvaluation): void {
  const { checkpoint, suite, n, correct } = found;
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify(found));
    return;
  }
  const score = colors.green(accuracy(found));
  console.log(`  ${checkpoint.padEnd(24)}${suite.padEnd(20)}${score}  ${colors.dim(`${correct} of ${n}`)}`);
}
