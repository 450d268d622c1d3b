/**
 * @file Reopens evaluations that lost answers to a failure of the infrastructure or of the judge. The order makes it safe to interrupt: the
 * next call reopens a job that has no result.
 *
 *     done, with losses -> failed outcomes deleted -> result deleted -> job queued        its next worker reuses the other answers
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { decryptedObjects } from "../../core/training/encrypted-objects.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { reopenJob } from "../../core/training/job-writes.ts";
import { findResult } from "./lost-answers.ts";
import { readJobs } from "./read-records.ts";

export async function reopenLost(store: Store, config: RunConfig): Promise<void> {
  for (const job of await readJobs(store, config.run)) {
    const result = await findResult(store, job);
    if (!isReopened(job, result)) continue;
    if (result) await deleteLosses(store, config, job, result);
    await store.table.update(reopenJob(job));
  }
}

/** Whether a run has evaluations to do once `reopenLost` is done. */
export async function hasEvaluationsToDo(store: Store, run: string): Promise<boolean> {
  for (const job of await readJobs(store, run)) {
    if (job.state !== "done" || isReopened(job, await findResult(store, job))) return true;
  }
  return false;
}

const isReopened = ({ state }: JobRecord, result: EvaluationResult | undefined): boolean =>
  state === "done" && (!result || result.lost.length > 0);

/** Deletes the failed outcomes and the result of a job that lost answers. */
async function deleteLosses(
  { objects }: Store,
  config: RunConfig,
  { run, job, team, runs }: JobRecord,
  { lost, questions }: EvaluationResult,
): Promise<void> {
  const decrypted = decryptedObjects(objects);
  const step = addressStep(config, team);
  const candidates = questions.flatMap(({ question }, group) =>
    lost.includes(question) ? runs.map((_, rollout) => ({ run, phase: `eval:${job}`, step, group, rollout })) : [],
  );
  for (const address of candidates) {
    const outcomeKey = objectKeys.outcome(address);
    const outcome = await decrypted.get(outcomeKey);
    if (outcome && parseJson(Outcome, outcome, outcomeKey).status === "failed") await objects.delete([outcomeKey]);
  }
  await objects.delete([objectKeys.evaluation(run, job)]);
}
