/**
 * @file How many instances of each fleet the runs need, and which run an instance works on.
 *
 *     a run          needs, from each fleet that serves one of its agents or evaluates, a number of slots: one per worker
 *     tick           slots of all runs -> the capacity of each fleet
 *     an instance    starts -> the oldest run with a free slot -> takes it by a conditional write -> works until the run is over or has
 *                    nothing to evaluate -> the next such run -> none: terminates itself and lowers the capacity by one
 *
 * A fleet slot is free if no worker or a dead one occupies it. So two live instances never hold the same one, and after a crash, a
 * drain or a spot interruption it can be taken again.
 *
 * Tick raises a capacity, and sets it to 0 once no run needs the fleet. It never lowers it in between, because the Auto Scaling group would
 * choose the instance to terminate. An idle instance terminates itself instead.
 *
 * An instance that cannot serve a run (its release is not that of the run's workers, or a recipe or engine is missing) writes the reason into
 * the FLEET record and looks for another run. No further instance of that release is requested for the run: it keeps its workers, and is
 * halted with that reason once a role of the fleet has no live worker. The next deployment, or launching the run again, resets this.
 *
 * Instances that start and terminate without any progress in the run (no driver, a release that does not start) would be replaced forever.
 * So each request for instances is counted, and after `MAX_CAPACITY_REQUESTS` of them without progress the run gives up on the fleet: it keeps
 * the workers that it has, and is halted once a role of the fleet has no live worker. A request that fails is not counted, since no instance
 * starts for it. A fleet that evaluates never halts a run.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Fleet } from "../contracts/deployment.ts";
import type { FleetRecord } from "../contracts/fleet-record.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { JobRecord, RunRecord, WorkerRecord } from "../contracts/records.ts";
import type { ApiSpending } from "./api-spending.ts";
import { dueJobs } from "./evaluation.ts";
import { countCapacityRequest, incrementedCount, uncountCapacityRequest } from "./fleet-writes.ts";
import { overBudgetReason, spending } from "./run-budget.ts";
import { trainedAgents } from "./step-plan.ts";
import { insert, type StoreCommand, update } from "./store-commands.ts";
import { endRun } from "./writes.ts";

/** Maximum requests for instances while the run makes no progress. */
export const MAX_CAPACITY_REQUESTS = 5;

/** What fleets need to know about a run. */
export interface RunRecords {
  readonly config: RunConfig;
  readonly record: RunRecord;
  readonly jobs: readonly JobRecord[];
  readonly workers: readonly WorkerRecord[];
  readonly fleets: readonly FleetRecord[];
  readonly apiSpending: ApiSpending;
}

/** The part of a fleet that determines how many of its instances a run needs. */
export type FleetSpec = Pick<Fleet, "name" | "agent" | "roles" | "release">;

/** Number of workers that the run needs from this fleet now; only those it already has, if it gets no new ones. `storeTime` in ms. */
export function workersNeeded(run: RunRecords, fleet: FleetSpec, storeTime: number): number {
  const needed = fleetSlotsNeeded(run, fleet, storeTime);
  return getsNewWorkers(run, fleet) ? needed : Math.min(needed, slotHolders(run, fleet).length);
}

function fleetSlotsNeeded(run: RunRecords, fleet: FleetSpec, storeTime: number): number {
  const { config, record } = run;
  if (fleet.agent === "*") return evaluatorsNeeded(run, storeTime);
  const agent = config.agents[fleet.agent];
  if (!agent || record.status !== "running" || isOverBudget(run, storeTime)) return 0;
  if (fleet.roles.includes("rollout")) return agent.workers;
  return trainedAgents(config).includes(fleet.agent) ? 1 : 0;
}

function evaluatorsNeeded(run: RunRecords, storeTime: number): number {
  const { config, record, jobs } = run;
  // The budget also limits the hourly cost of a finished run.
  if (isOverBudget(run, storeTime)) return 0;
  return Math.min(config.evaluation.workers, dueJobs(config, record.status, jobs).length);
}

function isOverBudget({ config, record, workers, apiSpending }: RunRecords, storeTime: number): boolean {
  return overBudgetReason(record, spending(config, record, workers, apiSpending, storeTime)) !== undefined;
}

/** The capacity that an Auto Scaling group should have. */
export function capacityOf(fleet: Fleet, runs: readonly RunRecords[], current: number, storeTime: number): number {
  const needed = runs.reduce((sum, run) => sum + workersNeeded(run, fleet, storeTime), 0);
  return needed === 0 ? 0 : Math.max(current, Math.min(needed, fleet.max));
}

/** Whether the run needs scheduled ticks. */
export function isActive(run: RunRecords, fleets: readonly FleetSpec[], storeTime: number): boolean {
  if (run.record.status === "running") return true;
  const evaluating = fleets.filter(({ agent }) => agent === "*");
  // If no fleet evaluates, workers that were started by hand do.
  if (evaluating.length === 0) return evaluatorsNeeded(run, storeTime) > 0;
  return evaluating.some((fleet) => workersNeeded(run, fleet, storeTime) > 0);
}

/** Slots of the run in this fleet that a new instance may take. */
export function freeFleetSlots(run: RunRecords, fleet: FleetSpec, storeTime: number): string[] {
  if (!getsNewWorkers(run, fleet)) return [];
  const { fleetSlots } = fleetRecord(run, fleet);
  const holders = new Set<string | undefined>(slotHolders(run, fleet));
  const all = Array.from({ length: fleetSlotsNeeded(run, fleet, storeTime) }, (_, i) => String(i));
  return all.filter((slot) => !holders.has(fleetSlots[slot]));
}

/** The order in which instances serve the runs. */
export function oldestFirst(runs: readonly RunRecords[]): RunRecords[] {
  const name = ({ record }: RunRecords) => record.run;
  return [...runs].sort((a, b) => a.record.startedAt - b.record.startedAt || (name(a) < name(b) ? -1 : 1));
}

/**
 * Counts a request for instances in every run with a free slot for them. If no run has one, a worker has probably died unmarked:
 * then counts it in every run that needs the fleet. Execute before the request.
 */
export function countCapacityRequests(
  fleet: FleetSpec,
  runs: readonly RunRecords[],
  storeTime: number,
): StoreCommand[] {
  return requestingRuns(fleet, runs, storeTime).flatMap((run) => [
    insert({ key: tableKeys.fleet(run.record.run, fleet.name), item: emptyFleetRecord(run.record.run, fleet.name) }),
    update(countCapacityRequest(fleetRecord(run, fleet), fleetProgressOf(run, fleet))),
  ]);
}

/** The runs as `countCapacityRequests` with the same arguments leaves them. With the new count, a run may give up on the fleet. */
export function withCapacityRequests(fleet: FleetSpec, runs: readonly RunRecords[], storeTime: number): RunRecords[] {
  const requesting = requestingRuns(fleet, runs, storeTime);
  return runs.map((run) => {
    if (!requesting.includes(run)) return run;
    const known = fleetRecord(run, fleet);
    const others = run.fleets.filter((one) => one.fleet !== fleet.name);
    return { ...run, fleets: [...others, { ...known, ...incrementedCount(known, fleetProgressOf(run, fleet)) }] };
  });
}

/** Takes back `countCapacityRequests` with the same arguments. Execute if the request fails. */
export function uncountCapacityRequests(
  fleet: FleetSpec,
  runs: readonly RunRecords[],
  storeTime: number,
): StoreCommand[] {
  return requestingRuns(fleet, runs, storeTime).map((run) =>
    update(uncountCapacityRequest(fleetRecord(run, fleet), fleetProgressOf(run, fleet))),
  );
}

function requestingRuns(fleet: FleetSpec, runs: readonly RunRecords[], storeTime: number): readonly RunRecords[] {
  const needing = runs.filter((run) => workersNeeded(run, fleet, storeTime) > 0);
  const lacking = needing.filter((run) => freeFleetSlots(run, fleet, storeTime).length > 0);
  return lacking.length > 0 ? lacking : needing;
}

/** Halts a running run if a role of a fleet has no live worker, and the fleet refuses the run or the run has given up on the fleet. */
export function haltUnserved(run: RunRecords, fleets: readonly FleetSpec[]): StoreCommand[] {
  if (run.record.status !== "running") return [];
  const serving = fleets.filter(({ agent }) => agent in run.config.agents);
  const reason = unservedReason(run, serving) ?? givenUpReason(run, serving);
  return reason === undefined ? [] : [update(endRun(run.record.run, { code: "unserved", reason }))];
}

function unservedReason(run: RunRecords, fleets: readonly FleetSpec[]): string | undefined {
  const refusing = fleets.find((fleet) => refusalReason(run, fleet) !== undefined && !isServed(run, fleet));
  if (!refusing) return undefined;
  const refusal = refusalReason(run, refusing);
  return `instances of fleet ${refusing.name} do not serve the run: ${refusal}; fix it, then launch the run again`;
}

function givenUpReason(run: RunRecords, fleets: readonly FleetSpec[]): string | undefined {
  const lost = fleets.filter((fleet) => isGivenUp(run, fleet) && !isServed(run, fleet));
  if (lost.length === 0) return undefined;
  const names = lost.map(({ name }) => name).join(", ");
  const logs = lost.map(({ name }) => `logs/${name}/`).join(", ");
  return (
    `instances of fleet ${names} came up ${MAX_CAPACITY_REQUESTS} times without completing step ${run.record.step}; ` +
    `the newest logs under ${logs} in the bucket say why; fix it, then launch the run again`
  );
}

/** The FLEET record of a run before anything happened. */
export function emptyFleetRecord(run: string, fleet: string): FleetRecord {
  return { run, fleet, fleetSlots: {}, progress: 0, capacityRequests: 0, refusal: null };
}

export function fleetRecord(
  { record: { run }, fleets }: Pick<RunRecords, "record" | "fleets">,
  { name }: Pick<FleetSpec, "name">,
): FleetRecord {
  return fleets.find(({ fleet }) => fleet === name) ?? emptyFleetRecord(run, name);
}

/** Why instances of this fleet, with its current release, do not serve the run. */
function refusalReason(run: RunRecords, fleet: FleetSpec): string | undefined {
  const { refusal } = fleetRecord(run, fleet);
  return refusal?.release === fleet.release ? refusal.reason : undefined;
}

/** Live workers that occupy slots of the fleet. */
function slotHolders(run: RunRecords, fleet: FleetSpec): string[] {
  const alive = new Set(run.workers.filter(({ state }) => state !== "dead").map(({ worker }) => worker));
  return Object.values(fleetRecord(run, fleet).fleetSlots).filter((worker) => alive.has(worker));
}

/** Whether each role of the fleet that the run needs has a live worker, from this fleet or not. */
function isServed({ config, workers }: RunRecords, { agent, roles }: FleetSpec): boolean {
  const alive = workers.filter((worker) => worker.state !== "dead" && worker.agent === agent);
  const needed = roles.filter((role) => role !== "train" || trainedAgents(config).includes(agent));
  return needed.every((role) => alive.some((worker) => worker.roles.includes(role)));
}

/** False once the fleet refused the run, or the run gave up on the fleet. */
const getsNewWorkers = (run: RunRecords, fleet: FleetSpec): boolean =>
  refusalReason(run, fleet) === undefined && !isGivenUp(run, fleet);

type FleetProgress = Pick<RunRecords, "record" | "jobs" | "fleets">;

/** Whether the run requests no more instances of this fleet, since those that came up made no progress. */
export function isGivenUp(run: FleetProgress, fleet: Pick<FleetSpec, "name" | "agent">): boolean {
  const { capacityRequests, progress } = fleetRecord(run, fleet);
  return capacityRequests > MAX_CAPACITY_REQUESTS && progress === fleetProgressOf(run, fleet);
}

/** The run's step. Of a fleet that evaluates: the evaluations done, plus one once the run is finished. */
function fleetProgressOf({ record, jobs }: FleetProgress, { agent }: Pick<FleetSpec, "agent">): number {
  if (agent !== "*") return record.step;
  return jobs.filter(({ state }) => state === "done").length + (record.status === "finished" ? 1 : 0);
}
