/**
 * @file Sets what depends on all runs together, after each has been ticked: the capacity of fleets and the schedule of ticks.
 * The schedule is on only while there is work: an idle deployment pays for no ticks.
 *
 *     start, resume     1 set RUN to running     2 turn the schedule on
 *     tick, idle        1 find no active run     2 turn the schedule off     3 read again: an active run -> turn it on
 *
 * Invariant: the schedule is on while a run is active, in whatever order these steps happen. Consider the last time it is turned off. The
 * read that follows sees every RUN written before it, and turns the schedule on. If a RUN is written later, its own start turns the schedule
 * on, after it was turned off. A tick that dies between 2 and 3 is retried: Lambda retries a failed asynchronous invocation twice, even while the
 * schedule is off. A start that dies between 1 and 2 has not returned, so its caller repeats it.
 */
import type { Fleet } from "../core/contracts/deployment.ts";
import type { RunRecord } from "../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { readApiSpendingIfLimited } from "../core/training/api-spending.ts";
import {
  capacityOf,
  countCapacityRequests,
  haltUnserved,
  isActive,
  type RunRecords,
  uncountCapacityRequests,
  withCapacityRequests,
} from "../core/training/fleets.ts";
import { shareSpent, spending } from "../core/training/run-budget.ts";
import type { StoreCommand } from "../core/training/store-commands.ts";
import { type Context, type ControlledDeployment, readControlledDeployment } from "./context.ts";
import { execute } from "./executing.ts";

/** A capacity that was changed. */
export interface CapacityChange {
  readonly fleet: string;
  readonly from: number;
  readonly to: number;
}

export interface Reconciliation {
  readonly metrics: RunMetrics;
  readonly changes: readonly CapacityChange[];
  readonly failures: readonly unknown[];
}

/**
 * Sets fleets and schedule to what the runs need. Failures are returned: one must neither hide the metrics nor stop other fleets from scaling
 * down. Rejects only if the runs cannot be read.
 */
export async function reconcile(context: Context): Promise<Reconciliation> {
  const overview = await readRunOverview(context);
  const metrics = metricsOf(overview);
  const changes: CapacityChange[] = [];
  const failures: unknown[] = [...overview.failures];
  const report = (error: unknown): undefined => {
    failures.push(error);
    return undefined;
  };
  const deployment = await readControlledDeployment(context).catch(report);
  if (deployment) {
    const scaled = await scaleFleets(context, deployment, overview, changes).catch((error: unknown) => [error]);
    failures.push(...scaled);
    // If a fleet could not be set, the schedule stays on, so the next tick retries.
    const scheduling =
      scaled.length > 0 ? keepScheduleOn(deployment) : reconcileSchedule(context, deployment, overview);
    await scheduling.catch(report);
  }
  return { metrics, changes, failures };
}

/** Turns the schedule on. Call it once RUN records the run as running. */
export async function startSchedule(context: Context): Promise<void> {
  const deployment = await readControlledDeployment(context);
  await deployment?.scheduleSwitch.turn("on");
}

/** Turns the schedule on or off, as the runs need it. */
export async function reconcileSchedule(
  context: Context,
  { fleets, scheduleSwitch }: ControlledDeployment,
  overview: RunOverview,
): Promise<void> {
  // A run that cannot be read still needs attention: its failures must keep being reported.
  const hasWork = ({ runs, failures, storeTime }: RunOverview) =>
    failures.length > 0 || runs.some((run) => isActive(run, fleets, storeTime));
  if (hasWork(overview)) return keepScheduleOn({ scheduleSwitch });
  await scheduleSwitch.turn("off");
  if (hasWork(await readRunOverview(context))) await scheduleSwitch.turn("on");
}

/** Turns the schedule on, unless it is on. An earlier attempt at this tick may have turned it off and died. */
async function keepScheduleOn({ scheduleSwitch }: Pick<ControlledDeployment, "scheduleSwitch">): Promise<void> {
  if (!(await scheduleSwitch.isOn())) await scheduleSwitch.turn("on");
}

/**
 * Gives each fleet the capacity that the runs need, and adds what it changed to `changes`. Then halts each run in which a role of a fleet has no
 * live worker and gets no new one. Returns the failures: one fleet's or run's failure does not stop the rest. Rejects if the
 * capacities cannot be read.
 */
async function scaleFleets(
  context: Context,
  { fleets, capacities }: ControlledDeployment,
  overview: RunOverview,
  changes: CapacityChange[],
): Promise<unknown[]> {
  const failures: unknown[] = [];
  if (fleets.length === 0) return failures;
  const current = await capacities.read(fleets.map(({ group }) => group));
  const { storeTime } = overview;
  let { runs } = overview;
  const scale = async (fleet: Fleet): Promise<void> => {
    const from = current.get(fleet.group);
    if (from === undefined) throw missingGroup(fleet);
    let uncount: StoreCommand[] = [];
    if (capacityOf(fleet, runs, from, storeTime) > from) {
      uncount = uncountCapacityRequests(fleet, runs, storeTime);
      await execute(context, countCapacityRequests(fleet, runs, storeTime));
      // Not read again: if the store failed now, the count would be of a request that is not made.
      runs = withCapacityRequests(fleet, runs, storeTime);
    }
    const to = capacityOf(fleet, runs, from, storeTime);
    if (to === from) return;
    try {
      await capacities.write(fleet.group, to);
    } catch (error) {
      failures.push(error);
      if (to > from) await execute(context, uncount);
      return;
    }
    changes.push({ fleet: fleet.name, from, to });
  };
  const report = (error: unknown) => void failures.push(error);
  for (const fleet of fleets) await scale(fleet).catch(report);
  for (const run of runs) await execute(context, haltUnserved(run, fleets)).catch(report);
  return failures;
}

const missingGroup = ({ name, group }: Fleet) =>
  new MgrpoError(
    "deployment-unreachable",
    `fleet ${name}: there is no Auto Scaling group ${group}: deploy again, which creates it`,
    { retryable: true },
  );

/** One log line per fleet whose capacity was changed. */
export function capacityLine(change: CapacityChange): string {
  return JSON.stringify({ level: "info", what: "fleet", ...change });
}

/**
 * All runs at once, as fleets, the schedule and the alarms need them. A finished run appears only while it has evaluations left, a halted
 * one never.
 */
export interface RunOverview {
  /** Running runs, and finished ones with open evaluations. */
  readonly runs: readonly RunRecords[];
  /** By run: the store time in ms at which tick first saw its current progress. */
  readonly progressAt: ReadonlyMap<string, number>;
  /** One per run with damaged records. Such a run gets no capacity; the others are not affected. */
  readonly failures: readonly Error[];
  readonly storeTime: number;
}

export async function readRunOverview(context: Context): Promise<RunOverview> {
  const runs: RunRecords[] = [];
  const failures: Error[] = [];
  const listed = await context.records.listedRuns();
  for (const { run } of listed) {
    try {
      const record = await context.records.run(run);
      const view = record && record.status !== "halted" ? await viewOf(context, record) : undefined;
      if (view) runs.push(view);
    } catch (error) {
      // A store that refuses or does not answer says nothing about the run: its machines must stay.
      if (!isMgrpoError(error) || error.retryable || error.code === "store-unreachable") throw error;
      failures.push(error);
    }
  }
  const progressAt = new Map(
    listed.flatMap(({ run, progressAt: at }) => (at === undefined ? [] : [[run, at] as const])),
  );
  return { runs, progressAt, failures, storeTime: await context.clock.storeTime() };
}

async function viewOf({ table, runObjects, records }: Context, record: RunRecord): Promise<RunRecords | undefined> {
  const { run, status } = record;
  const jobs = await records.jobs(run);
  if (status === "finished" && jobs.every(({ state }) => state === "done")) return undefined;
  const config = await runObjects.config(run);
  const [workers, fleets] = await Promise.all([records.workers(run), records.fleets(run)]);
  const apiSpending = await readApiSpendingIfLimited(table, record);
  return { config, record, jobs, apiSpending, workers, fleets };
}

/** What the alarms are computed from. */
export interface RunMetrics {
  /** Agents of running runs without a live worker: none has registered, or all are marked dead. */
  readonly unserved: number;
  /** The running runs. */
  readonly runs: readonly {
    readonly run: string;
    /** Minutes since its last score or version. */
    readonly idleMinutes: number;
    /** The share of its budget that it has spent; 0 without one. */
    readonly spent: number;
  }[];
}

export function metricsOf({ runs, progressAt, storeTime }: RunOverview): RunMetrics {
  const running = runs.filter(({ record }) => record.status === "running");
  const unserved = running.flatMap(({ config, workers }) => {
    const served = new Set(workers.filter(({ state }) => state !== "dead").map(({ agent }) => agent));
    return Object.keys(config.agents).filter((name) => !served.has(name));
  });
  return {
    unserved: unserved.length,
    runs: running.map(({ config, record, workers, apiSpending }) => {
      const { run } = record;
      const idle = storeTime - (progressAt.get(run) ?? storeTime);
      const spent = shareSpent(record, spending(config, record, workers, apiSpending, storeTime));
      return { run, idleMinutes: Math.floor(Math.max(0, idle) / 60_000), spent };
    }),
  };
}

/**
 * The log lines that the alarms' metric filters read (stacks/alarms.ts): one for all runs, then one per running run. None while no run
 * is running: CloudWatch bills a metric for each hour in which it has data.
 */
export function metricsLines({ unserved, runs }: RunMetrics): string[] {
  if (runs.length === 0) return [];
  const lines = [{ what: "pulse", running: runs.length, unserved }, ...runs.map((one) => ({ what: "run", ...one }))];
  return lines.map((line) => JSON.stringify({ level: "info", ...line }));
}
