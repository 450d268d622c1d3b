/** @file The conditional writes of evaluation jobs, as data. The other records: writes.ts. */
import { tableKeys } from "../contracts/keys.ts";
import type { EvaluationScore, JobRecord } from "../contracts/records.ts";
import type { TableChange } from "../ports.ts";
import { equals } from "./writes.ts";

/** Leases an evaluation job that is queued, this worker's own, or a dead worker's. `suspects`: see evaluation-suspects.ts. */
export function leaseJob(job: JobRecord, worker: string, suspects?: JobRecord["suspects"]): TableChange {
  return {
    key: tableKeys.job(job.run, job.job),
    set: [[["state"], "leased"], [["owner"], worker], ...setSuspects(suspects)],
    add: [[["fence"], 1]],
    when: [equals("state", job.state), equals("fence", job.fence)],
  };
}

const setSuspects = (suspects: JobRecord["suspects"] = {}) =>
  Object.keys(suspects).length > 0 ? [[["suspects"], suspects] as const] : [];

/** Requeues a job whose evaluation failed or was canceled, so that another worker need not wait until its owner counts as dead. */
export function releaseJob({ run, job }: JobRecord, worker: string, suspects?: JobRecord["suspects"]): TableChange {
  return {
    key: tableKeys.job(run, job),
    set: [[["state"], "queued"], [["owner"], ""], ...setSuspects(suspects)],
    when: [equals("state", "leased"), equals("owner", worker)],
  };
}

/** Records the score of an evaluation, once. Clears the suspects, so that rollouts that were abandoned run again if it is reopened. */
export function finishJob(job: JobRecord, { n, correct, runs, interval }: EvaluationScore): TableChange {
  return {
    key: tableKeys.job(job.run, job.job),
    set: [
      [["state"], "done"],
      [["n"], n],
      [["correct"], correct],
      [["runs"], runs],
      [["interval"], interval],
    ],
    remove: [["suspects"]],
    when: [equals("state", job.state)],
  };
}

/** Requeues an evaluation that lost rollouts. Its next lease has a fence above 1, so its worker keeps the rollouts that succeeded. */
export function reopenJob(job: JobRecord): TableChange {
  return {
    key: tableKeys.job(job.run, job.job),
    set: [
      [["state"], "queued"],
      [["owner"], ""],
    ],
    when: [equals("state", "done"), equals("fence", job.fence)],
  };
}
