/** @file What the clock's alarms go by: how many runs are under way, and how many of their agents no live worker serves. */
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { WorkerRecord } from "../../core/contracts/records.ts";
import type { Context } from "../context.ts";
import { listedRuns } from "./runs.ts";

export interface Pulse {
  readonly running: number;
  /** Agents of running runs whose workers are all gone: their last heartbeat is older than the lease. */
  readonly unserved: number;
}

export async function pulse(context: Context): Promise<Pulse> {
  let [running, unserved] = [0, 0];
  for (const run of await listedRuns(context)) {
    const record = await context.records.run(run);
    if (record?.status !== "running") continue;
    const items = await context.table.query(tableKeys.run(run).pk, tablePrefixes.workers);
    const workers = items.map((item) => parse(WorkerRecord, item, `WORKER of run '${run}'`));
    const served = new Set(workers.filter(({ state }) => state !== "dead").map(({ agent }) => agent));
    const { agents } = await context.facts.config(run);
    running += 1;
    unserved += Object.keys(agents).filter((name) => !served.has(name)).length;
  }
  return { running, unserved };
}
