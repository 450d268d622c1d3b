/**
 * @file Reopens evaluations that lost answers to infrastructure. The order makes it safe to interrupt: the next call reopens a job that has
 * no result.
 *
 *     done, with losses -> failed outcomes deleted -> result deleted -> job queued        its next worker reuses the other answers
 */
import { objectKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { decryptedObjects } from "../../core/training/encrypted-objects.ts";
import { reopenJob } from "../../core/training/job-writes.ts";
import { readJobs } from "./follow.ts";

export async function reopenLost(store: Store, run: string): Promise<void> {
  for (const job of await readJobs(store, run)) {
    if (job.state === "done" && (await deleteLosses(store, job))) await store.table.update(reopenJob(job));
  }
}

/** Deletes the failed outcomes and the result of a job. False if it lost nothing. */
async function deleteLosses({ objects }: Store, { run, job, team, runs }: JobRecord): Promise<boolean> {
  const key = objectKeys.evaluation(run, job);
  const bytes = await objects.get(key);
  if (!bytes) return true;
  const { lost, questions } = parseJson(EvaluationResult, bytes, key);
  if (lost.length === 0) return false;
  const opened = decryptedObjects(objects);
  const candidates = questions.flatMap(({ question }, group) =>
    lost.includes(question)
      ? runs.map((_, rollout) => ({ run, phase: `eval:${job}`, step: team, group, rollout }))
      : [],
  );
  for (const address of candidates) {
    const outcomeKey = objectKeys.outcome(address);
    const outcome = await opened.get(outcomeKey);
    if (outcome && parseJson(Outcome, outcome, outcomeKey).status === "failed") await objects.delete([outcomeKey]);
  }
  await objects.delete([key]);
  return true;
}
