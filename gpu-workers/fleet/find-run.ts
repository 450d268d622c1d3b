/**
 * @file Which run an instance of a fleet works on: the oldest one that has a free place for it (core/training/fleets.ts).
 *
 *     look ──none──> wait, look again ──patience over──> undefined: the instance ends itself
 *      '───a run with a free place──> registered there as a worker ──> take the place, by a conditional write
 *                                                                        '── another was quicker: leave, look again
 *
 *     a free place   waits for: a run that needs workers, or the death of one   unblocked by: start-run, the lease, a drain
 *
 * Registered before the place is taken, so that whoever has a place has a WORKER record, by which others see whether it lives.
 */
import { RunConfig } from "../../core/contracts/config.ts";
import { type Fleet, parseDeployment } from "../../core/contracts/deployment.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { FleetRecord, JobRecord, RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { limitedBills } from "../../core/training/bills.ts";
import { emptyFleetRecord, fleetRecord, freePlaces, oldestFirst, type RunView } from "../../core/training/fleets.ts";
import { refuseRun, takePlace } from "../../core/training/writes.ts";

const LOOK_SECONDS = 10;

type Refusal = NonNullable<FleetRecord["refusal"]>;

/** A fleet of the deployment that the store belongs to. */
export async function readFleet({ table }: Store, name: string): Promise<Fleet> {
  const deployment = parseDeployment(await table.get(tableKeys.deployment));
  const fleet = deployment?.fleets.find((one) => one.name === name);
  if (fleet) return fleet;
  const known = deployment?.fleets.map((one) => one.name).join(", ");
  throw new MgrpoError(
    "config-invalid",
    deployment
      ? `--fleet ${name}: the deployment has no such fleet, only ${known || "none"}`
      : `--fleet ${name}: the table belongs to no deployment, so it has no fleets: name a run with --run`,
  );
}

/** A run that needs a worker of this fleet, but for those that are `refused`. Undefined: none did, for so long. */
export async function findRun(
  store: Store,
  fleet: Fleet,
  refused: ReadonlySet<string>,
  patienceSeconds: number,
  stop: AbortSignal,
): Promise<string | undefined> {
  const { clock } = store;
  const until = clock.monotonic() + patienceSeconds;
  while (!stop.aborted) {
    const [runs, storeTime] = [await readRuns(store, refused), await clock.storeTime()];
    const needy = oldestFirst(runs).find((run) => freePlaces(run, fleet, storeTime).length > 0);
    if (needy) return needy.record.run;
    const left = until - clock.monotonic();
    if (left <= 0) return undefined;
    await clock.sleep(Math.min(left, LOOK_SECONDS), stop);
  }
  return undefined;
}

/** Takes a free place of the run for this worker. False: there is none any more. */
export async function enter(store: Store, fleet: Fleet, name: string, worker: string): Promise<boolean> {
  const { table, clock } = store;
  await table.insert(tableKeys.fleet(name, fleet.name), emptyFleetRecord(name, fleet.name));
  for (;;) {
    const run = await readRun(store, name);
    const [place] = run ? freePlaces(run, fleet, await clock.storeTime()) : [];
    if (!run || place === undefined) return false;
    const { applied, item } = await table.update(takePlace(fleetRecord(run, fleet), place, worker));
    // Taken by an earlier try whose answer was lost, too.
    if (applied || (item && parse(FleetRecord, item, `FLEET ${fleet.name} of '${name}'`).places[place] === worker))
      return true;
  }
}

/** Says, in the run's record of this fleet, that instances of this release do not serve it, and why. */
export async function refuse({ table }: Store, fleet: Fleet, run: string, refusal: Refusal): Promise<void> {
  await table.insert(tableKeys.fleet(run, fleet.name), emptyFleetRecord(run, fleet.name));
  await table.update(refuseRun({ run, fleet: fleet.name }, refusal));
}

async function readRuns(store: Store, refused: ReadonlySet<string>): Promise<RunView[]> {
  const { pk, sk } = tableKeys.listed("");
  const listed = await store.table.query(pk, sk);
  const names = listed.map(({ run }) => String(run)).filter((name) => !refused.has(name));
  // A run whose records are damaged keeps nobody from the others; the clock's tick tells of it.
  const unlessDamaged = (error: unknown) => {
    if (!isMgrpoError(error) || error.retryable) throw error;
    return undefined;
  };
  return (await Promise.all(names.map((name) => readRun(store, name).catch(unlessDamaged)))).flatMap(
    (run) => run ?? [],
  );
}

/** Undefined: it is not there yet, or needs nobody any more. */
async function readRun({ table, objects }: Store, run: string): Promise<RunView | undefined> {
  const item = await table.get(tableKeys.run(run));
  const record = item && parse(RunRecord, item, `RUN '${run}'`);
  if (!record || record.status === "halted") return undefined;
  const all = (prefix: string) => table.query(tableKeys.run(run).pk, prefix);
  const jobs = (await all(tablePrefixes.jobs)).map((one) => parse(JobRecord, one, `JOB of run '${run}'`));
  if (record.status === "finished" && jobs.every(({ state }) => state === "done")) return undefined;
  const config = await objects.get(objectKeys.config(run));
  if (!config) throw new MgrpoError("not-found", `${objectKeys.config(run)} is missing from the bucket`);
  const [workers, fleets] = await Promise.all([all(tablePrefixes.workers), all(tablePrefixes.fleets)]);
  return {
    ...{ config: parseJson(RunConfig, config, objectKeys.config(run)), record, jobs },
    bills: await limitedBills(table, record),
    workers: workers.map((one) => parse(WorkerRecord, one, `WORKER of run '${run}'`)),
    fleets: fleets.map((one) => parse(FleetRecord, one, `FLEET of run '${run}'`)),
  };
}
