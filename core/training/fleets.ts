/**
 * @file How many instances of a deployment's fleets the runs need, and which run an instance works on.
 *
 *     a run          has, of each fleet that serves one of its agents, so many places as it needs workers of it
 *     tick           needs of all runs -> the capacity of each fleet
 *     an instance    comes up -> the oldest run with a free place -> takes it by a conditional write -> works until the run is over, or
 *                    has nothing to evaluate -> looks for the next one -> none: ends itself, and takes itself off the capacity
 *
 * A place is free when nobody has it, or a worker that is dead. So two instances that come up together never both serve one run
 * while another has nobody, and after a crash, a drain or a spot notice the place is somebody else's.
 *
 * Tick raises a capacity, and sets it to 0 once no run needs the fleet. It does not lower it in between: which of the instances may go, the
 * group would choose blindly. The one that has nothing to do any more knows that it is the one.
 *
 * An instance that cannot serve a run (its release is another one than that of the run's workers, it lacks the recipe or the engine) says
 * why in the FLEET record and goes on without it. No other instance of that release is asked for then: the run keeps the workers that it
 * has, and is halted with that reason once an agent has none. The next deployment, or launching the run again, asks anew.
 *
 * Instances that come up and end again without the run getting anywhere (no driver, a release that does not start) would be replaced for
 * ever. So each time that they are asked for is counted, and at one more than `MAX_RAISES` the fleet is given up for this run; a run that
 * cannot train without it is halted.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { Fleet } from "../contracts/deployment.ts";
import { tableKeys } from "../contracts/keys.ts";
import type { FleetRecord, JobRecord, RunRecord, WorkerRecord } from "../contracts/records.ts";
import type { Bills } from "./bills.ts";
import { overspent, spending } from "./budget.ts";
import { type Command, change, insert } from "./commands.ts";
import { dueJobs } from "./evaluation.ts";
import { countRaise, endRun } from "./writes.ts";

/** Times that instances are asked for while the run stands still. */
export const MAX_RAISES = 5;

/** A run as fleets see it. */
export interface RunView {
  readonly config: RunConfig;
  readonly record: RunRecord;
  readonly jobs: readonly JobRecord[];
  readonly workers: readonly WorkerRecord[];
  readonly fleets: readonly FleetRecord[];
  readonly bills: Bills;
}

/** Which workers a fleet gives: the part of it that needs are worked out from. */
export type Crew = Pick<Fleet, "name" | "agent" | "roles" | "release">;

/** Evaluation where no fleet does it: by workers that somebody started. */
const BY_HAND: Crew = { name: "eval", agent: "*", roles: ["eval"], release: "" };

/** Workers that the run needs of this fleet now: where it is refused no more than it has. `storeTime` in ms. */
export function workersNeeded(run: RunView, fleet: Crew, storeTime: number): number {
  const needed = placesOf(run, fleet, storeTime);
  return refusalOf(run, fleet) === undefined ? needed : Math.min(needed, crewOf(run, fleet).length);
}

function placesOf(run: RunView, fleet: Crew, storeTime: number): number {
  const { config, record, jobs, workers, bills } = run;
  if (record.status === "halted" || isGivenUp(run, fleet)) return 0;
  // A finished run's budget too is a hard stop for what is paid by the hour.
  if (overspent(record, spending(config, record, workers, bills, storeTime)) !== undefined) return 0;
  if (fleet.agent === "*") return Math.min(config.evaluation.workers, dueJobs(config, record.status, jobs).length);
  const agent = config.agents[fleet.agent];
  if (!agent || record.status === "finished") return 0;
  if (fleet.roles.includes("rollout")) return agent.workers;
  return agent.trained ? 1 : 0;
}

/** What an autoscaling group's capacity should be; `current` is what it is. */
export function capacityOf(fleet: Fleet, runs: readonly RunView[], current: number, storeTime: number): number {
  const needed = runs.reduce((sum, run) => sum + workersNeeded(run, fleet, storeTime), 0);
  return needed === 0 ? 0 : Math.max(current, Math.min(needed, fleet.max));
}

/** Whether the clock has something to look after. */
export function isActive(run: RunView, fleets: readonly Crew[], storeTime: number): boolean {
  const evaluating = fleets.filter(({ agent }) => agent === "*");
  const needed = (evaluating.length > 0 ? evaluating : [BY_HAND]).some(
    (crew) => workersNeeded(run, crew, storeTime) > 0,
  );
  return run.record.status === "running" || needed;
}

/** Places of the run in this fleet that an instance may take. */
export function freePlaces(run: RunView, fleet: Crew, storeTime: number): string[] {
  if (refusalOf(run, fleet) !== undefined) return [];
  const { places } = fleetRecord(run, fleet);
  const crew = new Set(crewOf(run, fleet));
  const all = Array.from({ length: placesOf(run, fleet, storeTime) }, (_, i) => String(i));
  return all.filter((place) => !crew.has(places[place] ?? ""));
}

/** Runs in the order in which they are served. */
export function oldestFirst(runs: readonly RunView[]): RunView[] {
  const name = ({ record }: RunView) => record.run;
  return [...runs].sort((a, b) => a.record.startedAt - b.record.startedAt || (name(a) < name(b) ? -1 : 1));
}

/**
 * Counts that instances are asked for, with the runs that have a free place for them. Where none has one, a worker may have died so lately
 * that nobody marked it yet: then with all that need the fleet. Executed before they are asked for.
 */
export function countRaises(fleet: Crew, runs: readonly RunView[], storeTime: number): Command[] {
  const needing = runs.filter((run) => workersNeeded(run, fleet, storeTime) > 0);
  const lacking = needing.filter((run) => freePlaces(run, fleet, storeTime).length > 0);
  return (lacking.length > 0 ? lacking : needing).flatMap((run) => [
    insert({ key: tableKeys.fleet(run.record.run, fleet.name), item: noRecord(run.record.run, fleet.name) }),
    change(countRaise(fleetRecord(run, fleet), progressOf(run, fleet))),
  ]);
}

/** Halts a running run that has no workers of some agent, and gets none. */
export function haltUnmanned(run: RunView, fleets: readonly Crew[]): Command[] {
  if (run.record.status !== "running") return [];
  const serving = fleets.filter(({ agent }) => agent in run.config.agents);
  for (const fleet of serving) {
    const refusal = refusalOf(run, fleet);
    if (refusal === undefined || isManned(run, fleet)) continue;
    const reason = `instances of fleet ${fleet.name} do not serve it: ${refusal}; mend it, then launch the run again`;
    return [change(endRun(run.record.run, "halted", reason))];
  }
  const lost = serving.filter((fleet) => isGivenUp(run, fleet));
  if (lost.length === 0) return [];
  const names = lost.map(({ name }) => name).join(", ");
  const logs = lost.map(({ name }) => `logs/${name}/`).join(", ");
  const reason =
    `instances of fleet ${names} came up ${MAX_RAISES} times, and none of them moved step ${run.record.step}; ` +
    `the newest logs under ${logs} in the bucket say why; mend it, then launch the run again`;
  return [change(endRun(run.record.run, "halted", reason))];
}

/** What places and counts are written to, before anything is. */
export function noRecord(run: string, fleet: string): FleetRecord {
  return { run, fleet, places: {}, progress: 0, raises: 0, refusal: null };
}

export function fleetRecord({ record: { run }, fleets }: RunView, { name }: Crew): FleetRecord {
  return fleets.find(({ fleet }) => fleet === name) ?? noRecord(run, name);
}

/** Why this fleet's instances, as they would come up now, do not serve the run. */
function refusalOf(run: RunView, fleet: Crew): string | undefined {
  const { refusal } = fleetRecord(run, fleet);
  return refusal?.release === fleet.release ? refusal.reason : undefined;
}

/** Live workers that hold the fleet's places. */
function crewOf(run: RunView, fleet: Crew): string[] {
  const alive = new Set(run.workers.filter(({ state }) => state !== "dead").map(({ worker }) => worker));
  return Object.values(fleetRecord(run, fleet).places).filter((worker) => alive.has(worker));
}

/** Whether each role of the fleet that the run needs has somebody, wherever that one came from. */
function isManned({ config, workers }: RunView, { agent, roles }: Crew): boolean {
  const alive = workers.filter((worker) => worker.state !== "dead" && worker.agent === agent);
  const needed = roles.filter((role) => role !== "train" || config.agents[agent]?.trained);
  return needed.every((role) => alive.some((worker) => worker.roles.includes(role)));
}

function isGivenUp(run: RunView, fleet: Crew): boolean {
  const { raises, progress } = fleetRecord(run, fleet);
  return raises > MAX_RAISES && progress === progressOf(run, fleet);
}

/** Moves whenever workers of this fleet got something done: a step, or an evaluation. The last evaluations get new tries. */
function progressOf({ record, jobs }: RunView, { agent }: Crew): number {
  if (agent !== "*") return record.step;
  return jobs.filter(({ state }) => state === "done").length + (record.status === "finished" ? 1 : 0);
}
