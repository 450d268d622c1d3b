/**
 * @file All runs at once, as fleets, the clock's switch and the alarms see them. Of a run that is over, only what may still concern them.
 */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { FleetRecord, JobRecord, type RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { limitedBills } from "../../core/training/bills.ts";
import type { RunView } from "../../core/training/fleets.ts";
import type { Context } from "../context.ts";
import { listedRuns } from "./runs.ts";

export interface Survey {
  /** Those that run, and those that are finished with evaluations left to make. */
  readonly runs: readonly RunView[];
  /** Of runs whose records are damaged: nothing is done for them, and nobody else waits for them. */
  readonly failures: readonly Error[];
  readonly storeTime: number;
}

export async function survey(context: Context): Promise<Survey> {
  const [runs, failures]: [RunView[], Error[]] = [[], []];
  for (const run of await listedRuns(context)) {
    try {
      const record = await context.records.run(run);
      const view = record && record.status !== "halted" ? await viewOf(context, record) : undefined;
      if (view) runs.push(view);
    } catch (error) {
      if (!isMgrpoError(error) || error.retryable) throw error;
      failures.push(error);
    }
  }
  return { runs, failures, storeTime: await context.clock.storeTime() };
}

async function viewOf({ table, facts }: Context, record: RunRecord): Promise<RunView | undefined> {
  const { run, status } = record;
  const all = (prefix: string) => table.query(tableKeys.run(run).pk, prefix);
  const jobs = (await all(tablePrefixes.jobs)).map((item) => parse(JobRecord, item, `JOB of run '${run}'`));
  if (status === "finished" && jobs.every(({ state }) => state === "done")) return undefined;
  const config = await facts.config(run);
  const [workers, fleets] = await Promise.all([all(tablePrefixes.workers), all(tablePrefixes.fleets)]);
  return {
    ...{ config, record, jobs },
    bills: await limitedBills(table, record),
    workers: workers.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`)),
    fleets: fleets.map((item) => parse(FleetRecord, item, `FLEET of run '${run}'`)),
  };
}
