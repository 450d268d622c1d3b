/**
 * @file Which run an instance of a fleet works on: the oldest one that has a free slot for it (core/training/fleets.ts).
 *
 *     look ──none──> wait, look again ──patience over──> undefined: the instance terminates itself
 *      '───a run with a free slot──> register there as a worker ──> take a free slot, by a conditional write
 *                                                                       '── none is free anymore: leave, look again
 *
 *     a free slot   waits for: a run that needs workers, or a worker's death   unblocked by: start-run, the end of a lease, a drain
 *
 * An instance registers before it takes a slot, so every slot belongs to a WORKER record, which shows whether its worker is alive.
 */
import { RunConfig } from "../../core/contracts/config.ts";
import { type Fleet, parseDeployment } from "../../core/contracts/deployment.ts";
import { FleetRecord } from "../../core/contracts/fleet-record.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { JobRecord, RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { readApiSpendingIfLimited } from "../../core/training/api-spending.ts";
import { claimFleetSlot, type FleetRefusal, recordFleetRefusal } from "../../core/training/fleet-writes.ts";
import {
  emptyFleetRecord,
  fleetRecord,
  freeFleetSlots,
  oldestFirst,
  type RunRecords,
} from "../../core/training/fleets.ts";
import { listedRuns } from "../../core/training/run-list.ts";

/** Between two reads of the runs. */
const POLL_SECONDS = 10;

/** A fleet of the store's deployment. */
export async function readFleet({ table }: Store, name: string): Promise<Fleet> {
  const deployment = parseDeployment(await table.get(tableKeys.deployment));
  const fleet = deployment?.fleets.find((one) => one.name === name);
  if (fleet) return fleet;
  const names = deployment?.fleets.map((one) => one.name).join(", ");
  const others = names ? `only ${names}` : "nor any other";
  throw new MgrpoError(
    "config-invalid",
    deployment
      ? `--fleet ${name}: the deployment has no such fleet, ${others}`
      : `--fleet ${name}: the table belongs to no deployment, so it has no fleets: name a run with --run`,
  );
}

/** The release that new instances of the fleet install. Undefined: the deployment no longer has the fleet. */
export async function deployedRelease({ table }: Store, { name }: Fleet): Promise<string | undefined> {
  const deployment = parseDeployment(await table.get(tableKeys.deployment));
  return deployment?.fleets.find((one) => one.name === name)?.release;
}

/** Called for each run that is passed over because its records are damaged. `error` says what is wrong. */
export type OnDamaged = (run: string, error: MgrpoError) => void;

/**
 * The oldest run that needs a worker of this fleet and is not `refused`; undefined when none has needed one for `patienceSeconds`, or `stop`
 * aborts. Rejects when the store cannot be read: an instance without permission must fail, since no other like it would find a run.
 */
export async function findRunForFleet(
  store: Store,
  fleet: Fleet,
  refused: ReadonlySet<string>,
  patienceSeconds: number,
  stop: AbortSignal,
  onDamaged: OnDamaged,
): Promise<string | undefined> {
  const { clock } = store;
  const deadline = clock.monotonic() + patienceSeconds;
  while (!stop.aborted) {
    const [runs, storeTime] = [await readActiveRuns(store, refused, onDamaged), await clock.storeTime()];
    const found = oldestFirst(runs).find((run) => freeFleetSlots(run, fleet, storeTime).length > 0);
    if (found) return found.record.run;
    const left = deadline - clock.monotonic();
    if (left <= 0) return undefined;
    await clock.sleep(Math.min(left, POLL_SECONDS), stop);
  }
  return undefined;
}

/** Takes a free slot in the run for this worker. False: none is free, or the run is over or halted. */
export async function enterRun(store: Store, fleet: Fleet, name: string, worker: string): Promise<boolean> {
  const { table, clock } = store;
  await table.insert(tableKeys.fleet(name, fleet.name), emptyFleetRecord(name, fleet.name));
  for (;;) {
    const run = await readActiveRun(store, name);
    const [slot] = run ? freeFleetSlots(run, fleet, await clock.storeTime()) : [];
    if (!run || slot === undefined) return false;
    const { applied, item } = await table.update(claimFleetSlot(fleetRecord(run, fleet), slot, worker));
    // An earlier attempt may have taken it although its response was lost.
    if (applied || (item && parse(FleetRecord, item, `FLEET ${fleet.name} of '${name}'`).fleetSlots[slot] === worker))
      return true;
  }
}

/** Records in the run's FLEET record that instances of this release do not serve it, and why. */
export async function recordRefusal({ table }: Store, fleet: Fleet, run: string, refusal: FleetRefusal): Promise<void> {
  await table.insert(tableKeys.fleet(run, fleet.name), emptyFleetRecord(run, fleet.name));
  await table.update(recordFleetRefusal({ run, fleet: fleet.name }, refusal));
}

async function readActiveRuns(store: Store, refused: ReadonlySet<string>, onDamaged: OnDamaged): Promise<RunRecords[]> {
  const names = (await listedRuns(store.table)).map(({ run }) => run).filter((name) => !refused.has(name));
  // A run with damaged records must not hide the others; the scheduled tick reports the damage.
  const readUnlessDamaged = (name: string) =>
    readActiveRun(store, name).catch((error: unknown) => {
      if (!isMgrpoError(error, "record-damaged", "not-found")) throw error;
      onDamaged(name, error);
      return undefined;
    });
  return (await Promise.all(names.map(readUnlessDamaged))).flatMap((run) => run ?? []);
}

/** Undefined if the run does not exist yet, is halted, or is finished with all jobs done. */
async function readActiveRun({ table, objects }: Store, run: string): Promise<RunRecords | undefined> {
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
    config: parseJson(RunConfig, config, objectKeys.config(run)),
    record,
    jobs,
    apiSpending: await readApiSpendingIfLimited(table, record),
    workers: workers.map((one) => parse(WorkerRecord, one, `WORKER of run '${run}'`)),
    fleets: fleets.map((one) => parse(FleetRecord, one, `FLEET of run '${run}'`)),
  };
}
