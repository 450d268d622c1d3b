/**
 * @file Evaluates a team on this machine: a run that never trains, whose team 0 is the team in question, in an embedded cloud of its
 * own; one evaluation worker answers its jobs. Where its folder is kept, another call goes on with it: what was answered stays, and
 * what infrastructure had spoiled is asked again.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { Extension } from "../../core/training/budget.ts";
import { counted } from "../terminal/columns.ts";
import type { Bases } from "./base-models.ts";
import { openEmbeddedCloud } from "./embedded-cloud.ts";
import { readJobs, readRun } from "./follow.ts";
import { reopenLost } from "./reopen-lost.ts";
import { startOrResume } from "./start-or-resume.ts";
import type { Stop } from "./stop.ts";
import { evaluatorsOf, startWorkers } from "./workers.ts";

export interface FinishedJob {
  readonly job: JobRecord;
  /** Open until the call returns. */
  readonly store: Store;
}

/** What became of the job's questions. */
export async function resultOf({ job, store }: FinishedJob): Promise<EvaluationResult> {
  const key = objectKeys.evaluation(job.run, job.job);
  const bytes = await store.objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: its JOB is done, the store does not have it`);
  return parseJson(EvaluationResult, bytes, key);
}

/** `3 answers lost, not counted (why)`; undefined where none is. */
export function describeLosses({ lost, reasons = [] }: Pick<EvaluationResult, "lost" | "reasons">): string | undefined {
  if (lost.length === 0) return undefined;
  return `${counted(lost.length, "answer")} lost, not counted (${reasons[0] ?? "infrastructure"})`;
}

/**
 * Tells of each job of the config's suites once, when it is done. Ends early when it is told to stop; rejects when the evaluation is
 * halted.
 */
export async function evaluateTeam(
  wanted: RunConfig,
  bases: Bases,
  questions: QuestionSet,
  stop: Stop,
  tell: (done: FinishedJob) => void | Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-eval-"));
  try {
    await evaluateInFolder(directory, wanted, bases, questions, stop, tell);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The same in a folder that stays, where more can be allowed of what ended it. One process at a time. */
export async function evaluateInFolder(
  directory: string,
  wanted: RunConfig,
  bases: Bases,
  questions: QuestionSet,
  stop: Stop,
  tell: (done: FinishedJob) => void | Promise<void>,
  extension: Extension = {},
): Promise<void> {
  // No training follows that a suite could wait for.
  const suites = wanted.evaluation.suites.map((suite) => ({ ...suite, when: "every" as const }));
  const config: RunConfig = { ...wanted, evaluation: { ...wanted.evaluation, suites } };
  mkdirSync(directory, { recursive: true });
  const session = await openEmbeddedCloud(join(directory, "cloud"), join(directory, "functions.log"));
  const { store } = session;
  try {
    await startOrResume(
      session,
      config,
      () => bases,
      () => questions,
      extension,
    );
    await reopenLost(store, config.run);
    const token = randomBytes(24).toString("base64url");
    const environment = { ...session.environment, MGRPO_WORKER_TOKEN: token };
    const open = (await readJobs(store, config.run)).some(({ state }) => state !== "done");
    const workers = open ? startWorkers(evaluatorsOf(config), environment, directory) : undefined;
    workers?.failed.catch(stop.fail);
    try {
      const told = new Set<string>();
      while (!stop.signal.aborted && told.size < suites.length) {
        const { status, reason } = await readRun(store, config.run);
        if (status === "halted") throw new MgrpoError("run-halted", reason);
        for (const job of await readJobs(store, config.run)) {
          if (job.state !== "done" || told.has(job.job)) continue;
          told.add(job.job);
          await tell({ job, store });
        }
        if (told.size < suites.length) await store.clock.sleep(0.25, stop.signal);
      }
    } finally {
      await workers?.stop();
    }
    stop.rethrow();
  } finally {
    await session.close();
  }
}
