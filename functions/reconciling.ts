/**
 * @file Sets what depends on all runs together, after the clock has ticked each: the capacity of fleets and the clock's own schedule.
 * The schedule is on only while there is work, so that an idle deployment costs nothing.
 *
 *     start, resume     1 set RUN to running     2 turn the schedule on
 *     tick, idle        1 find no active run     2 turn the schedule off     3 read again: an active run -> turn it on
 *
 * Invariant: the schedule is on while a run is active, in whatever order these steps happen. Consider the last time it is turned off. The
 * read that follows sees every RUN written before it, and turns the schedule on. If a RUN is written later, its own start turns the schedule
 * on, after it was turned off. A tick that dies between 2 and 3 is retried: Lambda retries a failed clock call twice, even while the
 * schedule is off. A start that dies between 1 and 2 has not returned, so its caller repeats it.
 */
import type { Fleet } from "../core/contracts/deployment.ts";
import { capacityOf, countCapacityRequests, haltUnserved, isActive } from "../core/training/fleets.ts";
import type { Context } from "./context.ts";
import { type ControlledDeployment, readDeployment } from "./deployment.ts";
import { execute } from "./executing.ts";
import { metricsOf, type RunMetrics, type RunOverview, readRunOverview } from "./run-overview.ts";

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

/** Sets fleets and schedule to what the runs need. Failures are returned: one must not hide the metrics, nor keep other machines running. */
export async function reconcile(context: Context): Promise<Reconciliation> {
  const overview = await readRunOverview(context);
  const metrics = metricsOf(overview);
  try {
    const deployment = await readDeployment(context);
    if (!deployment) return { metrics, changes: [], failures: overview.failures };
    const { changes, failures } = await scaleFleets(context, deployment, overview);
    // While a fleet could not be set, the schedule stays on: the next tick retries.
    if (failures.length === 0) await reconcileSchedule(context, deployment, overview);
    return { metrics, changes, failures: [...overview.failures, ...failures] };
  } catch (error) {
    return { metrics, changes: [], failures: [...overview.failures, error] };
  }
}

/** Turns the schedule on. Call it once RUN records the run as running. */
export async function startSchedule(context: Context): Promise<void> {
  const deployment = await readDeployment(context);
  await deployment?.clockSwitch.turn("on");
}

/** Turns the schedule on or off, as the runs need it. */
export async function reconcileSchedule(
  context: Context,
  { fleets, clockSwitch }: ControlledDeployment,
  overview: RunOverview,
): Promise<void> {
  // A run that cannot be read still needs attention: its failures must keep being reported.
  const hasWork = ({ runs, failures, storeTime }: RunOverview) =>
    failures.length > 0 || runs.some((run) => isActive(run, fleets, storeTime));
  if (hasWork(overview)) {
    if (!(await clockSwitch.isOn())) await clockSwitch.turn("on");
    return;
  }
  await clockSwitch.turn("off");
  if (hasWork(await readRunOverview(context))) await clockSwitch.turn("on");
}

/** Gives each fleet the capacity that the runs need. A failure of one fleet does not stop the others from being scaled. */
async function scaleFleets(
  context: Context,
  { fleets, capacities }: ControlledDeployment,
  overview: RunOverview,
): Promise<Pick<Reconciliation, "changes" | "failures">> {
  const changes: CapacityChange[] = [];
  const failures: unknown[] = [];
  if (fleets.length === 0) return { changes, failures };
  const setCapacity = async ({ name, group }: Fleet, from: number, to: number) => {
    if (to === from) return;
    await capacities.write(group, to);
    changes.push({ fleet: name, from, to });
  };
  const current = await capacities.read(fleets.map(({ group }) => group));
  let { runs, storeTime } = overview;
  for (const fleet of fleets) {
    const from = current.get(fleet.group) ?? 0;
    if (capacityOf(fleet, runs, from, storeTime) > from) {
      await execute(context, countCapacityRequests(fleet, runs, storeTime));
      // The new count may mean that the run gives up on the fleet.
      ({ runs, storeTime } = await readRunOverview(context));
    }
    const to = capacityOf(fleet, runs, from, storeTime);
    await setCapacity(fleet, from, to).catch((error: unknown) => failures.push(error));
  }
  for (const run of runs) await execute(context, haltUnserved(run, fleets));
  return { changes, failures };
}

/** One log line per fleet whose capacity was changed. */
export function capacityLine(change: CapacityChange): string {
  return JSON.stringify({ level: "info", what: "fleet", ...change });
}
