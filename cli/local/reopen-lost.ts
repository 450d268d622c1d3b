/**
 * @file Asks again what an evaluation lost to infrastructure. The order is what makes it safe to break off: a job without its result
 * is opened again by the next call.
 *
 *     done, with losses -> failed outcomes deleted -> result deleted -> job queued        its next worker adopts what was answered
 */
import { objectKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import { openedObjects } from "../../core/training/encrypted-objects.ts";
import { reopenJob } from "../../core/training/job-writes.ts";
import { readJobs } from "./follow.ts";

export async function reopenLost(store: Store, run: string): Promise<void> {
  for (const job of await readJobs(store, run)) {
    if (job.state === "done" && (await forget(store, job))) await store.table.update(reopenJob(job));
  }
}

/** Deletes what keeps a lost rollout from being asked again. False: nothing was lost. */
async function forget({ objects }: Store, { run, job, team, runs }: JobRecord): Promise<boolean> {
  const key = objectKeys.evaluation(run, job);
  const bytes = await objects.get(key);
  if (!bytes) return true;
  const { lost, questions } = parseJson(EvaluationResult, bytes, key);
  if (lost.length === 0) return false;
  const opened = openedObjects(objects);
  const suspects = questions.flatMap(({ question }, group) =>
    lost.includes(question)
      ? runs.map((_, rollout) => ({ run, phase: `eval:${job}`, step: team, group, rollout }))
      : [],
  );
  for (const address of suspects) {
    const at = objectKeys.outcome(address);
    const outcome = await opened.get(at);
    if (outcome && parseJson(Outcome, outcome, at).status === "failed") await objects.delete([at]);
  }
  await objects.delete([key]);
  return true;
}
