/**
 * @file Evaluates a team on this machine: a run that never trains and whose version 0 is that team, in its own embedded cloud. Evaluation
 * workers process its jobs. If its folder is kept, another call resumes it, keeps its answers and retries lost ones.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { RaisedBudget } from "../../core/training/run-budget.ts";
import { makeTemporary, makeWritable } from "../writable-folder.ts";
import type { Bases } from "./base-models.ts";
import { type EmbeddedCloud, openEmbeddedCloud } from "./embedded-cloud.ts";
import { readJobs, readResult, readRun } from "./read-records.ts";
import { startOrResume } from "./start-or-resume.ts";
import type { Stop } from "./stop.ts";
import { evaluatorsOf, inFlightIn, startWorkers, type Workers } from "./workers.ts";

const POLL_SECONDS = 0.25;
/** The run's name in the store of an evaluation. */
export const EVALUATION_RUN = "eval";
/** The evaluation's store, within its folder. */
export const EVALUATION_CLOUD = "cloud";

export interface FinishedJob {
  readonly job: JobRecord;
  /** Open until the evaluation ends. */
  readonly store: Store;
}

/** Called once for each job of the config's suites, when it is done. */
type OnDone = (done: FinishedJob) => void | Promise<void>;

/** Called at each poll, with all jobs of the evaluation. */
export type OnPoll = (store: Store, jobs: readonly JobRecord[]) => Promise<void>;

/** The score of a job that is done, its lost answers, and the score of each question over all its runs. */
export const resultOf = ({ job, store }: FinishedJob): Promise<EvaluationResult> => readResult(store, job);

/** Ends early when `stop` aborts; rejects if the evaluation halts. Resolves with whether every suite is done. */
export async function evaluateLocally(
  config: RunConfig,
  bases: Bases,
  questions: QuestionSet,
  stop: Stop,
  onDone: OnDone,
): Promise<boolean> {
  const directory = makeTemporary("mgrpo-eval-");
  let isLogNamed = false;
  try {
    return await evaluateInFolder(directory, config, bases, questions, stop, onDone);
  } catch (error) {
    isLogNamed = isMgrpoError(error, "worker-unavailable");
    throw error;
  } finally {
    // The error names the log of the worker that failed, so the logs stay.
    rmSync(isLogNamed ? join(directory, EVALUATION_CLOUD) : directory, { recursive: true, force: true });
  }
}

interface FolderOptions {
  readonly raised?: RaisedBudget;
  /** Called when the evaluation has started or resumed: from then on, the folder keeps its answers. */
  readonly onStart?: () => void;
  readonly onPoll?: OnPoll;
}

/** Like `evaluateLocally`, in a persistent folder: an evaluation that stopped at its budget resumes with a raised one. One process at a time. */
export async function evaluateInFolder(
  directory: string,
  wanted: RunConfig,
  bases: Bases,
  questions: QuestionSet,
  stop: Stop,
  onDone: OnDone,
  { raised = {}, onStart, onPoll }: FolderOptions = {},
): Promise<boolean> {
  const config = withoutWaiting(wanted);
  makeWritable(directory, "name another folder with --results");
  const cloud = await openEmbeddedCloud(join(directory, EVALUATION_CLOUD), join(directory, "functions.log"));
  try {
    await startOrResume(
      cloud,
      config,
      () => bases,
      () => questions,
      raised,
    );
    onStart?.();
    const isOpen = (await readJobs(cloud.store, config.run)).some(({ state }) => state !== "done");
    const workers = isOpen ? startEvaluators(config, cloud, directory) : undefined;
    workers?.failed.catch(stop.fail);
    const following = followJobs(cloud.store, config, stop.signal, onDone, onPoll);
    const isComplete = await following.finally(() => workers?.stop());
    stop.rethrow();
    return isComplete;
  } finally {
    await cloud.close();
  }
}

/** Suites evaluated only before and after training would wait for training that never happens. */
function withoutWaiting(config: RunConfig): RunConfig {
  const suites = config.evaluation.suites.map((suite) => ({ ...suite, when: "every" as const }));
  return { ...config, evaluation: { ...config.evaluation, suites } };
}

function startEvaluators(config: RunConfig, { environment, store }: EmbeddedCloud, logs: string): Workers {
  const token = randomBytes(24).toString("base64url");
  const variables = { ...environment, MGRPO_WORKER_TOKEN: token };
  return startWorkers(evaluatorsOf(config), variables, logs, inFlightIn(store.table, config.run));
}

/**
 * Ends when every suite is done, or the signal aborts. Resolves with whether every suite is done. Rejects with `run-halted` if the evaluation
 * halts, retryable after a judge's outage.
 */
export async function followJobs(
  store: Store,
  config: RunConfig,
  signal: AbortSignal,
  onDone: OnDone,
  onPoll?: OnPoll,
): Promise<boolean> {
  const { run, evaluation } = config;
  const reported = new Set<string>();
  while (!signal.aborted && reported.size < evaluation.suites.length) {
    const { status, reason, haltCode } = await readRun(store, run);
    // An outage may end by itself.
    if (status === "halted") throw new MgrpoError("run-halted", reason, { retryable: haltCode === "judge-outage" });
    const jobs = await readJobs(store, run);
    await onPoll?.(store, jobs);
    for (const job of jobs) {
      if (job.state !== "done" || reported.has(job.job)) continue;
      reported.add(job.job);
      await onDone({ job, store });
    }
    if (reported.size < evaluation.suites.length) await store.clock.sleep(POLL_SECONDS, signal);
  }
  return reported.size === evaluation.suites.length;
}
