/**
 * @file enqueue-evaluation: a team manifest -> its jobs, put-if-absent. record-evaluation: a result -> its JOB, once. Both are safe to
 * repeat. Tick also enqueues, for the team that RUN points to, and a scheduled tick looks for results whose event was lost.
 */
import { TeamManifest } from "../core/contracts/checkpoint.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { EvaluationResult } from "../core/contracts/messages.ts";
import { parse, parseJson } from "../core/contracts/parse.ts";
import { JobRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import { dueSuites, newJobs, readDueTeam } from "../core/training/evaluation.ts";
import { finishJob } from "../core/training/job-writes.ts";
import type { Context } from "./context.ts";
import { sha256 } from "./run-objects.ts";

/** Queues the evaluations that are due for the team manifest at this key. `isLast`: no team follows, however many steps were planned. */
export async function enqueueEvaluation(
  { objects, table, runObjects }: Context,
  key: string,
  isLast?: boolean,
): Promise<void> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: no such team manifest`);
  const { run, team } = parseJson(TeamManifest, bytes, key);
  const config = await runObjects.config(run);
  // If `isLast` is not true, the last team is the one after the planned number of steps.
  const suites = dueSuites(config, team, await readDueTeam(table, config, team), isLast || undefined);
  for (const job of newJobs(config, team, suites, sha256(bytes), sha256)) {
    await table.insert(tableKeys.job(run, job.job), job);
  }
}

/** Records the score of the evaluation at this key. */
export async function recordEvaluation({ objects, table }: Context, key: string): Promise<void> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: no such evaluation`);
  const result = parseJson(EvaluationResult, bytes, key);
  const { run, job } = result;
  for (let item = await table.get(tableKeys.job(run, job)); ; ) {
    if (!item) throw new MgrpoError("not-found", `${key}: run '${run}' has no job ${job}`);
    const record = parse(JobRecord, item, `JOB ${job}`);
    if (record.state === "done") return;
    // The write fails if the state changed in between (a worker leased or released the job): retry with the current item.
    const { applied, item: current } = await table.update(finishJob(record, result));
    if (applied) return;
    item = current;
  }
}

/** The jobs that are not done. */
export async function readOpenJobs({ records }: Context, run: string): Promise<JobRecord[]> {
  return (await records.jobs(run)).filter(({ state }) => state !== "done");
}

/** Records the results of these open jobs that are in the store. Rejects with the first failure once it has tried them all. */
export async function recordMissedResults(context: Context, openJobs: readonly JobRecord[]): Promise<void> {
  const failures: unknown[] = [];
  for (const { run, job } of openJobs) {
    const key = objectKeys.evaluation(run, job);
    try {
      if ((await context.objects.head(key)) !== undefined) await recordEvaluation(context, key);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
