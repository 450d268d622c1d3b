/**
 * @file `mgrpo eval --watch <folder or s3://bucket/prefix> --team <file>`: evaluates each checkpoint that appears there, once, as one
 * agent of a team whose other agents stay the same.
 *
 *     poll ──complete, and not handled in this state──> its suites without a result ──> one line and one file each ──> poll …
 *     waits for: the next poll      unblocked by: time; Ctrl-C ends it
 *
 *     lost answers, a judge's outage ──> answers kept in a folder; missing ones asked for again after 1, 2, 4 … polls ──ten retries──> refused
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import colors from "picocolors";
import { openFolderSource } from "../adapters/checkpoints/folder.ts";
import { openS3Source } from "../adapters/checkpoints/s3.ts";
import type { CheckpointListing, CheckpointSource, FileState } from "../core/checkpoint-source.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { canonicalJson, parseJson } from "../core/contracts/parse.ts";
import type { QuestionSet } from "../core/contracts/question.ts";
import type { JobRecord } from "../core/contracts/records.ts";
import { ownerOf } from "../core/contracts/shared-policy.ts";
import { type WatchedEvaluation, WatchedTeam } from "../core/contracts/watched-team.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { resolveConfig } from "../core/training/resolve-config.ts";
import { completeCheckpoints, fingerprintOf, watchedJobId } from "../core/training/watched-checkpoints.ts";
import { sha256 } from "../engine/hash.ts";
import { openNamedRecipe, openRecipe } from "../recipes/registry.ts";
import { CHECKPOINT_FILE, hashesOf, readBases } from "./local/base-models.ts";
import { EVALUATION_RUN, evaluateInFolder, type FinishedJob, resultOf } from "./local/evaluate-team.ts";
import { pinModels } from "./local/hub-models.ts";
import { describeLosses } from "./local/lost-answers.ts";
import { readText } from "./local/run-folder.ts";
import { type Stop, stopWithin, watchForStop } from "./local/stop.ts";
import { writeAtomically } from "./local/written-files.ts";
import { readQuestions, refuseSkippedSuites } from "./questions.ts";
import { accuracy, correctOf, counted, duration } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { type LiveLine, openLiveLine } from "./terminal/live.ts";
import { padColumns, row } from "./terminal/rows.ts";
import { refuseTrainingOnlySettings } from "./unread-settings.ts";
import { makeWritable } from "./writable-folder.ts";

export interface EvalWatchOptions {
  /** File that holds a WatchedTeam. */
  readonly team: string;
  /** Seconds between polls. */
  readonly every: number;
  /** Folder of the results. */
  readonly results: string;
}

/** Everything that evaluating one checkpoint needs. */
interface WatchContext {
  readonly team: WatchedTeam;
  readonly config: RunConfig;
  readonly questions: QuestionSet;
  readonly source: CheckpointSource;
  /** Where the source is, as the user wrote it. */
  readonly location: string;
  readonly results: string;
  readonly stop: Stop;
  readonly live: LiveLine;
}

export async function watch(location: string, { team: file, every, results }: EvalWatchOptions): Promise<void> {
  if (!existsSync(file)) throw new MgrpoError("not-found", `--team ${file}: no such file`);
  const team = parseJson(WatchedTeam, readText(file), `--team ${file}`, "config-invalid");
  const config = await teamConfig(team);
  const questions = await readQuestions(await openRecipe(team.recipe), config);
  refuseSkippedSuites(config, questions);
  const source = location.startsWith("s3://") ? openS3Source(location) : openFolderSource(location);
  makeWritable(results, "name another folder with --results");
  const stop = watchForStop();
  const live = openLiveLine(process.stdout);
  const watched: WatchContext = { team, config, questions, source, location, results, stop, live };
  let evaluated = 0;
  const idle = () => live.show(() => `${counted(evaluated, "checkpoint")} evaluated, waiting for more in ${location}`);
  const evaluate = async (checkpoint: string, files: ReadonlyMap<string, FileState>) => {
    try {
      await evaluateCheckpoint(watched, checkpoint, files);
      evaluated += 1;
    } finally {
      idle();
    }
  };
  try {
    idle();
    await watchCheckpoints(source, every, stop.signal, evaluate, (problem) => live.print(problemLine(problem)));
  } finally {
    live.close();
    stop.dispose();
  }
}

/**
 * Throws `endpoint-unavailable`, retryable, if answers were lost: a score over the rest would be kept forever. The next call for the same
 * checkpoint asks for only the lost ones again.
 */
async function evaluateCheckpoint(
  { team, config, questions, source, location, results, stop, live }: WatchContext,
  checkpoint: string,
  files: ReadonlyMap<string, FileState>,
): Promise<void> {
  const names = [...files.keys()].filter((name) => CHECKPOINT_FILE.test(name)).sort();
  const bases = await readBases(config, "evaluate", new Map([[team.agent, await source.read(checkpoint, names)]]));
  const hashes = await hashesOf(bases);
  const jobOf = (suite: EvaluationSuite) => {
    const asked = questions.suites?.[suite.name] ?? questions.heldOut;
    return watchedJobId(team, hashes, { suite, questions: asked }, sha256);
  };
  const pathOf = (suite: EvaluationSuite) => join(results, `${jobOf(suite)}.json`);
  const { suites } = config.evaluation;
  const left = new Map(suites.filter((suite) => !existsSync(pathOf(suite))).map((suite) => [suite.name, suite]));
  if (left.size === 0) return;
  const lost: string[] = [];
  const started = performance.now();
  live.show(() => progressText(checkpoint, suites.length, [...left.keys()], (performance.now() - started) / 1000));
  const save = async (done: FinishedJob) => {
    const suite = left.get(done.job.suite);
    if (!suite) return; // An earlier attempt saved it.
    const lostAnswers = describeLosses(await resultOf(done));
    if (lostAnswers !== undefined) return void lost.push(`suite ${suite.name}: ${lostAnswers}`);
    left.delete(suite.name);
    const evaluation = watchedEvaluation(checkpoint, team.agent, jobOf(suite), done.job);
    writeAtomically(pathOf(suite), `${JSON.stringify(evaluation, null, 2)}\n`);
    live.print(lineOf(evaluation));
  };
  const folderId = sha256(canonicalJson({ location, checkpoint, jobs: suites.map(jobOf) })).slice(0, 16);
  const folder = join(results, `watch-${folderId}`);
  const own = stopWithin(stop);
  await evaluateInFolder(folder, config, bases, questions, own, save).finally(() => own.dispose());
  if (lost.length > 0) {
    throw new MgrpoError("endpoint-unavailable", `${checkpoint}: ${lost.join("; ")}`, { retryable: true });
  }
  if (left.size === 0) rmSync(folder, { recursive: true, force: true });
}

/** The checkpoint's name is cleaned: anyone who can write to the watched location can choose it. */
export function progressText(checkpoint: string, total: number, left: readonly string[], seconds: number): string {
  const done = `${stripControlCharacters(checkpoint)}: ${total - left.length} of ${counted(total, "suite")} done in ${duration(seconds)}`;
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

/** The last attempt to evaluate a checkpoint. It counts only while the checkpoint's files stay the same. */
interface EvaluationAttempt {
  readonly fingerprint: string;
  /** The number of the poll that tries again; NEVER if it was evaluated or refused. */
  readonly retryAt: number;
  readonly failures: number;
  /** The last problem that was reported. */
  readonly message?: string;
}

/** The maximum delay of Node's timers, in milliseconds. A longer one would end at once. */
const MAX_TIMER_MILLISECONDS = 2 ** 31 - 1;
/** Maximum number of retries, after 1, 2, 4 … polls: at ten seconds each, the last is after almost three hours. */
const MAX_RETRIES = 10;
const NEVER = Number.POSITIVE_INFINITY;

/** Polls the source until the signal aborts. A bad checkpoint or an outage of the source is reported once and does not end the watch. */
export async function watchCheckpoints(
  source: CheckpointSource,
  everySeconds: number,
  signal: Stop["signal"],
  evaluate: (checkpoint: string, files: ReadonlyMap<string, FileState>) => Promise<void>,
  report: (problem: WatchProblem) => void,
): Promise<void> {
  const attempts = new Map<string, EvaluationAttempt>();
  let before: CheckpointListing = new Map();
  let reported = "";
  for (let poll = 0; !signal.aborted; poll++) {
    try {
      const now = await source.list();
      for (const name of attempts.keys()) if (!now.has(name)) attempts.delete(name);
      for (const checkpoint of completeCheckpoints(before, now)) {
        const files = now.get(checkpoint) ?? new Map<string, FileState>();
        const fingerprint = fingerprintOf(files);
        const known = attempts.get(checkpoint);
        const last = known?.fingerprint === fingerprint ? known : { fingerprint, retryAt: poll, failures: 0 };
        if (signal.aborted || poll < last.retryAt) continue;
        const error = await evaluate(checkpoint, files).then(
          () => undefined,
          (failure: unknown) => failure,
        );
        attempts.set(checkpoint, afterAttempt(checkpoint, last, poll, error, report));
      }
      before = now;
      reported = "";
    } catch (error) {
      if (!isMgrpoError(error) || !error.retryable) throw error;
      if (error.message !== reported) report({ kind: "retry", code: error.code, message: error.message });
      reported = error.message;
    }
    await pause(Math.min(everySeconds * 1000, MAX_TIMER_MILLISECONDS), undefined, { signal }).catch(() => {});
  }
}

/** `error`: how the attempt failed; undefined if it did not. */
function afterAttempt(
  checkpoint: string,
  last: EvaluationAttempt,
  poll: number,
  error: unknown,
  report: (problem: WatchProblem) => void,
): EvaluationAttempt {
  if (error === undefined) return { ...last, retryAt: NEVER };
  // What halts one evaluation would halt every other one too, unless it is an outage that may pass.
  if (!isMgrpoError(error) || (error.code === "run-halted" && !error.retryable)) throw error;
  const { code, message } = error;
  if (!error.retryable || last.failures === MAX_RETRIES) {
    const advice = error.retryable ? `; given up after ${MAX_RETRIES} retries: restart the watch to retry` : "";
    report({ kind: "refused", checkpoint, code, message: `${message}${advice}` });
    return { ...last, retryAt: NEVER };
  }
  if (message !== last.message) report({ kind: "retry", checkpoint, code, message });
  return { ...last, retryAt: poll + 2 ** last.failures, failures: last.failures + 1, message };
}

/** The team's config. The watched agent's model is a placeholder until a checkpoint appears. */
async function teamConfig({ recipe: name, arm, seed, agent, models, set }: WatchedTeam): Promise<RunConfig> {
  refuseTrainingOnlySettings(set, "--team: set");
  const modelSettings = Object.entries(models).map(([other, model]) => `agents.${other}.model=${model}`);
  const settings = ["budget={}", ...set, ...modelSettings, "steps=1"];
  const recipe = await openNamedRecipe(name);
  const config = await pinModels(
    resolveConfig(recipe, { run: EVALUATION_RUN, recipe: name, arm, seed, set: settings }),
  );
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

/** Cleaned for a terminal, since it may name a checkpoint. JSON leaves some control characters as they are. */
export function problemLine(problem: WatchProblem, isTerminal = process.stdout.isTTY): string {
  const line = JSON.stringify(problem);
  return isTerminal ? stripControlCharacters(line) : line;
}

export function lineOf(evaluation: WatchedEvaluation, isTerminal = process.stdout.isTTY): string {
  const { checkpoint, suite } = evaluation;
  if (!isTerminal) return JSON.stringify(evaluation);
  const label = `${padColumns(stripControlCharacters(checkpoint), 22)}  ${suite.padEnd(20)}`;
  return row(label, colors.green(accuracy(evaluation)), colors.dim(correctOf(evaluation)));
}
