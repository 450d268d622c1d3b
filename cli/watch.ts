/**
 * @file `mgrpo eval --watch <folder or s3://bucket/prefix> --team <file>`: evaluates each checkpoint that appears there, once, as one
 * agent of a team whose other agents stay the same.
 *
 *     poll ──complete, and not handled in this state──> its suites without a result ──> one line and one file each ──> poll …
 *     waits for: the next poll      unblocked by: time; Ctrl-C ends it
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import colors from "picocolors";
import { openFolderSource } from "../adapters/checkpoints/folder.ts";
import { openS3Source } from "../adapters/checkpoints/s3.ts";
import type { CheckpointListing, CheckpointSource, FileState } from "../core/checkpoint-source.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { parseJson } from "../core/contracts/parse.ts";
import type { QuestionSet } from "../core/contracts/question.ts";
import type { JobRecord } from "../core/contracts/records.ts";
import { ownerOf } from "../core/contracts/shared-policy.ts";
import { type WatchedEvaluation, WatchedTeam } from "../core/contracts/watched-team.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { resolveConfig } from "../core/training/resolve-config.ts";
import { completeCheckpoints, fingerprintOf, watchedJobId } from "../core/training/watched-checkpoints.ts";
import { sha256 } from "../engine/hash.ts";
import { openRecipe } from "../recipes/registry.ts";
import { CHECKPOINT_FILE, hashesOf, readBases } from "./local/base-models.ts";
import { describeLosses, evaluateLocally, type FinishedJob, resultOf } from "./local/evaluate-team.ts";
import { pinModels } from "./local/hub-models.ts";
import { writeAtomically } from "./local/run-folder.ts";
import { type Stop, watchForStop } from "./local/stop.ts";
import { readQuestions } from "./questions.ts";
import { accuracy, counted, duration } from "./terminal/columns.ts";
import { type LiveLine, openLiveLine } from "./terminal/live.ts";
import { row } from "./terminal/rows.ts";

export interface EvalWatchOptions {
  /** File that holds a WatchedTeam. */
  readonly team: string;
  /** Seconds between polls. */
  readonly every: number;
  /** Folder of the results. */
  readonly results: string;
}

/** Everything that evaluating one checkpoint needs. */
interface Watch {
  readonly team: WatchedTeam;
  readonly config: RunConfig;
  readonly questions: QuestionSet;
  readonly source: CheckpointSource;
  readonly results: string;
  readonly stop: Stop;
  readonly live: LiveLine;
}

export async function watch(location: string, { team: file, every, results }: EvalWatchOptions): Promise<void> {
  if (!existsSync(file)) throw new MgrpoError("not-found", `--team ${file}: no such file`);
  const team = parseJson(WatchedTeam, readFileSync(file), `--team ${file}`, "config-invalid");
  const config = await teamConfig(team);
  const questions = await readQuestions(await openRecipe(team.recipe), config);
  const source = location.startsWith("s3://") ? openS3Source(location) : openFolderSource(location);
  mkdirSync(results, { recursive: true });
  const stop = watchForStop();
  const live = openLiveLine(process.stdout);
  const watched: Watch = { team, config, questions, source, results, stop, live };
  let evaluated = 0;
  const idle = () => live.show(() => `${counted(evaluated, "checkpoint")} evaluated, waiting for more in ${location}`);
  const evaluate = async (checkpoint: string, files: ReadonlyMap<string, FileState>) => {
    await evaluateCheckpoint(watched, checkpoint, files);
    evaluated += 1;
    idle();
  };
  try {
    idle();
    await watchCheckpoints(source, every, stop.signal, evaluate, (line) => live.print(JSON.stringify(line)));
    stop.rethrow();
  } finally {
    live.close();
    stop.dispose();
  }
}

/** Throws `endpoint-unavailable`, retryable, if answers were lost: a score over the rest would be kept forever. */
async function evaluateCheckpoint(
  { team, config, questions, source, results, stop, live }: Watch,
  checkpoint: string,
  files: ReadonlyMap<string, FileState>,
): Promise<void> {
  const names = [...files.keys()].filter((name) => CHECKPOINT_FILE.test(name)).sort();
  const bases = await readBases(config, "evaluate", new Map([[team.agent, await source.read(checkpoint, names)]]));
  const hashes = await hashesOf(bases);
  const jobOf = (suite: EvaluationSuite) => watchedJobId(team, hashes, suite, sha256);
  const pathOf = (suite: EvaluationSuite) => join(results, `${jobOf(suite)}.json`);
  const suites = config.evaluation.suites.filter((suite) => !existsSync(pathOf(suite)));
  if (suites.length === 0) return;
  const left = new Map(suites.map((suite) => [suite.name, suite]));
  const lost: string[] = [];
  const started = performance.now();
  live.show(() => progressText(checkpoint, suites.length, [...left.keys()], (performance.now() - started) / 1000));
  const save = async (done: FinishedJob) => {
    const suite = left.get(done.job.suite);
    if (!suite) throw new RangeError(`suite '${done.job.suite}' was not to be evaluated`);
    left.delete(suite.name);
    const lostAnswers = describeLosses(await resultOf(done));
    if (lostAnswers !== undefined) return void lost.push(`suite ${suite.name}: ${lostAnswers}`);
    const found = watchedEvaluation(checkpoint, team.agent, jobOf(suite), done.job);
    writeAtomically(pathOf(suite), `${JSON.stringify(found, null, 2)}\n`);
    live.print(lineOf(found));
  };
  await evaluateLocally({ ...config, evaluation: { ...config.evaluation, suites } }, bases, questions, stop, save);
  if (lost.length === 0) return;
  const message = `${checkpoint}: ${lost.join("; ")}; retried at the next poll`;
  throw new MgrpoError("endpoint-unavailable", message, { retryable: true });
}

function progressText(checkpoint: string, total: number, left: readonly string[], seconds: number): string {
  const done = `${checkpoint}: ${total - left.length} of ${counted(total, "suite")} done in ${duration(seconds)}`;
  return left.length === 0 ? done : `${done}, left: ${left.join(", ")}`;
}

function watchedEvaluation(
  checkpoint: string,
  agent: string,
  job: string,
  { suite, n, correct, runs, interval }: JobRecord,
): WatchedEvaluation {
  return { kind: "evaluation", checkpoint, agent, job, suite, n, correct, runs, interval };
}

/** A line about a checkpoint that was refused, or about a failure that is retried. */
export interface WatchProblem {
  readonly kind: "refused" | "retry";
  readonly checkpoint?: string;
  readonly code: string;
  readonly message: string;
}

/** Polls the source until the signal aborts. A bad checkpoint or an outage of the source is reported once and does not end the watch. */
export async function watchCheckpoints(
  source: CheckpointSource,
  everySeconds: number,
  signal: Stop["signal"],
  evaluate: (checkpoint: string, files: ReadonlyMap<string, FileState>) => Promise<void>,
  report: (problem: WatchProblem) => void,
): Promise<void> {
  const handled = new Map<string, string>();
  let before: CheckpointListing = new Map();
  let reported = "";
  while (!signal.aborted) {
    try {
      const now = await source.list();
      for (const name of handled.keys()) if (!now.has(name)) handled.delete(name);
      for (const checkpoint of completeCheckpoints(before, now)) {
        const files = now.get(checkpoint) ?? new Map<string, FileState>();
        if (signal.aborted || handled.get(checkpoint) === fingerprintOf(files)) continue;
        await evaluate(checkpoint, files).catch((error: unknown) => {
          // What halts one evaluation would halt every other one too.
          if (!isMgrpoError(error) || error.retryable || error.code === "run-halted") throw error;
          report({ kind: "refused", checkpoint, code: error.code, message: error.message });
        });
        handled.set(checkpoint, fingerprintOf(files));
      }
      before = now;
      reported = "";
    } catch (error) {
      if (!isMgrpoError(error) || !error.retryable) throw error;
      if (error.message !== reported) report({ kind: "retry", code: error.code, message: error.message });
      reported = error.message;
    }
    await pause(everySeconds * 1000, undefined, { signal }).catch(() => {});
  }
}

/** The team's config. The watched agent's model is a placeholder until a checkpoint appears. */
async function teamConfig({ recipe: name, arm, seed, agent, models, set }: WatchedTeam): Promise<RunConfig> {
  const fixed = Object.entries(models).map(([other, model]) => `agents.${other}.model=${model}`);
  const settings = ["budget={}", ...set, ...fixed, "steps=1"];
  const advised = await openRecipe(name);
  const config = await pinModels(resolveConfig(advised, { run: "eval", recipe: name, arm, seed, set: settings }));
  if (!config.agents[agent] || models[agent] !== undefined) {
    const why = config.agents[agent] ? "is the watched one: leave it out of models" : "is not an agent of the recipe";
    throw new MgrpoError("config-invalid", `--team: agent '${agent}' ${why}`);
  }
  const owner = ownerOf(config.agents, agent);
  if (owner !== agent) {
    throw new MgrpoError("config-invalid", `--team: agent '${agent}' has the policy of '${owner}': watch that one`);
  }
  if (config.evaluation.suites.length > 0) return config;
  throw new MgrpoError("config-invalid", `recipe '${name}' has no evaluation.suites: add one`);
}

function lineOf(found: WatchedEvaluation): string {
  const { checkpoint, suite, n, correct } = found;
  if (!process.stdout.isTTY) return JSON.stringify(found);
  const label = `${checkpoint.padEnd(24)}${suite.padEnd(20)}`;
  return row(label, colors.green(accuracy(found)), colors.dim(`${correct} of ${n}`));
}
