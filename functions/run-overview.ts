/**
 * @file All runs at once, as fleets, the clock's schedule and the alarms need them. A finished run appears only while it has evaluations
 * left, a halted one never.
 */
import type { RunRecord } from "../core/contracts/records.ts";
import { isMgrpoError } from "../core/errors.ts";
import { readBillsIfLimited } from "../core/training/bills.ts";
import type { RunView } from "../core/training/fleets.ts";
import { shareSpent, spending } from "../core/training/run-budget.ts";
import type { Context } from "./context.ts";

export interface RunOverview {
  /** Running runs, and finished ones with open evaluations. */
  readonly runs: readonly RunView[];
  /** By run: the store time in ms at which tick first saw its current progress. */
  readonly progressAt: ReadonlyMap<string, number>;
  /** One per run with damaged records. Such a run gets nothing; the others are not affected. */
  readonly failures: readonly Error[];
  readonly storeTime: number;
}

export async function readRunOverview(context: Context): Promise<RunOverview> {
  const runs: RunView[] = [];
  const failures: Error[] = [];
  const listed = await context.records.listedRuns();
  for (const { run } of listed) {
    try {
      const record = await context.records.run(run);
      const view = record && record.status !== "halted" ? await viewOf(context, record) : undefined;
      if (view) runs.push(view);
    } catch (error) {
      if (!isMgrpoError(error) || error.retryable) throw error;
      failures.push(error);
    }
  }
  const progressAt = new Map(
    listed.flatMap(({ run, progressAt: at }) => (at === undefined ? [] : [[run, at] as const])),
  );
  return { runs, progressAt, failures, storeTime: await context.clock.storeTime() };
}

async function viewOf({ table, runObjects, records }: Context, record: RunRecord): Promise<RunView | undefined> {
  const { run, status } = record;
  const jobs = await records.jobs(run);
  if (status === "finished" && jobs.every(({ state }) => state === "done")) return undefined;
  const config = await runObjects.config(run);
  const [workers, fleets] = await Promise.all([records.workers(run), records.fleets(run)]);
  const bills = await readBillsIfLimited(table, record);
  return { config, record, jobs, bills, workers, fleets };
}

/** What the clock's alarms are computed from. */
export interface RunMetrics {
  readonly running: number;
  /** Agents of running runs without a live worker: none has registered, or all are marked dead. */
  readonly unserved: number;
  /** The largest share of its budget that any run has spent; 0 if no run has a budget. */
  readonly spent: number;
  /** By running run: minutes since its last outcome or version. */
  readonly idleMinutes: Readonly<Record<string, number>>;
}

export function metricsOf({ runs, progressAt, storeTime }: RunOverview): RunMetrics {
  const running = runs.filter(({ record }) => record.status === "running");
  const unserved = running.flatMap(({ config, workers }) => {
    const served = new Set(workers.filter(({ state }) => state !== "dead").map(({ agent }) => agent));
    return Object.keys(config.agents).filter((name) => !served.has(name));
  });
  const spent = running.map(({ config, record, workers, bills }) =>
    shareSpent(record, spending(config, record, workers, bills, storeTime)),
  );
  const idle = running.map(({ record: { run } }) => [run, storeTime - (progressAt.get(run) ?? storeTime)] as const);
  return {
    running: running.length,
    unserved: unserved.length,
    spent: Math.max(0, ...spent),
    idleMinutes: Object.fromEntries(idle.map(([run, ms]) => [run, Math.floor(Math.max(0, ms) / 60_000)])),
  };
}

/**
 * The log lines that the alarms' metric filters read (stacks/alarms.ts): one for all runs, then one per running run. None while nothing
 * runs: each hour with a value costs.
 */
export function metricsLines({ idleMinutes, ...all }: RunMetrics): string[] {
  if (all.running === 0) return [];
  const runs = Object.entries(idleMinutes).map(([run, minutes]) => ({ what: "run", run, idleMinutes: minutes }));
  return [{ what: "pulse", ...all }, ...runs].map((line) => JSON.stringify({ level: "info", ...line }));
}
