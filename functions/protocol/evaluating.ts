/**
 * @file enqueue-evaluation: a team manifest -> jobs, put-if-absent. record-evaluation: a result -> its JOB, once. Both are safe to
 * repeat; tick enqueues too when it closes a step, and the clock looks for results whose event was lost.
 */
import { TeamManifest } from "../../core/contracts/checkpoint.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { JobRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { dueSuites, enqueueJobs } from "../../core/training/evaluation.ts";
import { finishJob } from "../../core/training/job-writes.ts";
import type { Context } from "../context.ts";
import { sha256 } from "../sha256.ts";

/** Queues the evaluations that are due for the team manifest at this key. `last`: no other follows, however many steps were planned. */
export async function enqueueEvaluation(
  { objects, table, facts }: Context,
  key: string,
  last?: boolean,
): Promise<void> {
  const bytes = await objects.get(key);
  if (!bytes) throw new MgrpoError("not-found", `${key}: no such team manifest`);
  const { run, team } = parseJson(TeamManifest, bytes, key);
  const config = await facts.config(run);
  const suites = dueSuites(config, team, last || undefined);
  if (suites.length === 0) return;
  for (const command of enqueueJobs(config, team, suites, sha256(bytes), sha256)) {
    if (command.kind === "insert") for (const { key: at, item } of command.items) await table.insert(at, item);
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
    // The owner may change in between (a lease that was taken over): look again.
    const { applied, item: now } = await table.update(finishJob(record, result));
    if (applied) return;
    item = now;
  }
}

/** Records the results that lie in the store though their jobs are not done. */
export async function findResults(context: Context, run: string): Promise<void> {
  const items = await context.table.query(tableKeys.run(run).pk, tablePrefixes.jobs);
  const open = items
    .map((item) => parse(JobRecord, item, `JOB of run '${run}'`))
    .filter(({ state }) => state !== "done");
  for (const { job } of open) {
    const key = objectKeys.evaluation(run, job);
    if ((await context.objects.head(key)) !== undefined) await recordEvaluation(context, key);
  }
}
