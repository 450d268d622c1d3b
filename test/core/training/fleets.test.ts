/** @file How many workers runs need from each fleet, the capacity that follows, which slots are free, and when a run is halted. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Fleet } from "../../../core/contracts/deployment.ts";
import type { FleetRecord } from "../../../core/contracts/fleet-record.ts";
import type { JobRecord, RunRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { NO_API_SPENDING } from "../../../core/training/api-spending.ts";
import { countCapacityRequest } from "../../../core/training/fleet-writes.ts";
import {
  capacityOf,
  countCapacityRequests,
  emptyFleetRecord,
  freeFleetSlots,
  haltUnserved,
  isActive,
  MAX_CAPACITY_REQUESTS,
  oldestFirst,
  type RunRecords,
  workersNeeded,
} from "../../../core/training/fleets.ts";
import { endRun } from "../../../core/training/writes.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

const HOUR = 3_600_000;
const fleetOf = (name: string, agent: string, roles: Fleet["roles"]): Fleet => ({
  ...{ name, agent, roles, group: `group-${name}`, max: 4, release: "1" },
});
const MAIN = fleetOf("main", "main", ["rollout", "train"]);
const SEARCHER = fleetOf("searcher", "searcher", ["rollout", "train"]);
const EVAL = fleetOf("eval", "*", ["eval"]);
const FLEETS = [MAIN, SEARCHER, EVAL];

const jobOf = (suite: string, state: JobRecord["state"], team = 0): JobRecord => ({
  ...{ run: "test", job: `${suite}-${team}`, team, suite, state, owner: "", fence: 0 },
  ...{ n: 0, correct: 0, runs: [], interval: { low: 0, high: 1 } },
});
const workerOf = (worker: string, state: WorkerRecord["state"], agent = "main"): WorkerRecord => ({
  ...{ run: "test", worker, agent, roles: ["rollout", "train"], url: "", state, release: "1" },
  ...{ counter: 1, seenCounter: 1, seenAt: 0, inFlight: [] },
});

interface Changes {
  readonly config?: Parameters<typeof teamConfig>[0];
  readonly record?: Partial<RunRecord>;
  readonly jobs?: readonly JobRecord[];
  readonly workers?: readonly WorkerRecord[];
  readonly fleets?: readonly FleetRecord[];
}
function viewOf({ config = {}, record = {}, jobs = [], workers = [], fleets = [] }: Changes = {}): RunRecords {
  return {
    config: teamConfig(config),
    record: {
      ...{
        run: "test",
        status: "running",
        reason: "",
        step: 1,
        configSha256: "0".repeat(64),
        questionsSha256: "0".repeat(64),
      },
      ...{ startedAt: 0, maxHours: null, maxUsd: null },
      ...record,
    },
    ...{ jobs, workers, fleets, apiSpending: NO_API_SPENDING },
  };
}
const needs = (run: RunRecords, storeTime = 0) => FLEETS.map((fleet) => workersNeeded(run, fleet, storeTime));

test("a running run needs the configured workers of each agent, and evaluators only for jobs that are due now", () => {
  expect(needs(viewOf())).toEqual([1, 1, 0]);
  const agents = { main: { model: "m", delegates: ["searcher"], workers: 3 }, searcher: { model: "s", workers: 2 } };
  expect(needs(viewOf({ config: { agents } }))).toEqual([3, 2, 0]);
  // Suite "ends" is due after training.
  expect(needs(viewOf({ jobs: [jobOf("ends", "queued")] }))).toEqual([1, 1, 0]);
  const jobs = [jobOf("all", "leased"), jobOf("all", "queued", 2), jobOf("all", "done", 4), jobOf("ends", "queued")];
  expect(needs(viewOf({ jobs }))).toEqual([1, 1, 1]);
  const suites = [
    { name: "all", when: "every" as const },
    { name: "ends", when: "ends" as const },
  ];
  const evaluation = { every: 2, suites, workers: 5 };
  expect(needs(viewOf({ jobs, config: { evaluation } }))).toEqual([1, 1, 2]);
});

test("an agent outside the team needs no workers, and a frozen agent no trainer", () => {
  const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } };
  const [trainFleet, rolloutFleet] = [fleetOf("t", "searcher", ["train"]), fleetOf("r", "searcher", ["rollout"])];
  const run = viewOf({ config: { agents } });
  expect(
    [trainFleet, rolloutFleet, fleetOf("x", "judge", ["rollout"])].map((fleet) => workersNeeded(run, fleet, 0)),
  ).toEqual([0, 1, 0]);
  expect(workersNeeded(viewOf(), trainFleet, 0)).toBe(1);
});

test("a finished run needs evaluators until its last job is done; a halted one needs no workers", () => {
  const jobs = [jobOf("all", "queued", 3), jobOf("ends", "queued", 3)];
  expect(needs(viewOf({ record: { status: "finished", step: 3 }, jobs }))).toEqual([0, 0, 1]);
  const done = jobs.map((job): JobRecord => ({ ...job, state: "done" }));
  expect(needs(viewOf({ record: { status: "finished", step: 3 }, jobs: done }))).toEqual([0, 0, 0]);
  expect(needs(viewOf({ record: { status: "halted" }, jobs }))).toEqual([0, 0, 0]);
});

test("a run over its budget needs no workers in any state; a run needs ticks exactly while it is running or needs workers", () => {
  const status = fc.constantFrom<RunRecord["status"]>("running", "finished", "halted");
  const states = fc.array(fc.constantFrom<JobRecord["state"]>("queued", "leased", "done"), { maxLength: 4 });
  fc.assert(
    fc.property(status, states, fc.integer({ min: 1, max: 5 }), (status, states, hours) => {
      const jobs = states.map((state, team) => jobOf("all", state, team));
      const run = viewOf({ record: { status, maxHours: hours }, jobs });
      expect(needs(run, hours * HOUR)).toEqual([0, 0, 0]);
      expect(isActive(run, FLEETS, hours * HOUR)).toBe(status === "running");
      const before = needs(run, hours * HOUR - 1);
      expect(isActive(run, FLEETS, 0)).toBe(status === "running" || before.some((needed) => needed > 0));
      if (status === "halted") expect(before).toEqual([0, 0, 0]);
      expect(before[2]).toBeLessThanOrEqual(states.filter((state) => state !== "done").length);
    }),
  );
});

test("without an evaluation fleet, open jobs of a finished run still need ticks", () => {
  const open = viewOf({ record: { status: "finished" }, jobs: [jobOf("all", "queued")] });
  expect(isActive(open, [], 0)).toBe(true);
  expect(isActive(viewOf({ record: { status: "finished" }, jobs: [jobOf("all", "done")] }), [], 0)).toBe(false);
});

test("a capacity is 0 if no run needs the fleet; else it is raised to the need, at most to the fleet's max, and never lowered", () => {
  const running = fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 4 });
  const over = fc.integer({ min: 0, max: 3 });
  fc.assert(
    fc.property(running, over, fc.integer({ min: 0, max: 4 }), (workers, ended, current) => {
      const agents = (n: number) => ({ main: { model: "m", delegates: ["s"], workers: n }, s: { model: "s" } });
      const runs = [
        ...workers.map((n) => viewOf({ config: { agents: agents(n) } })),
        ...Array.from({ length: ended }, () => viewOf({ record: { status: "finished" } })),
      ];
      const needed = workers.reduce((sum, n) => sum + n, 0);
      const capacity = capacityOf(MAIN, runs, current, 0);
      expect(capacity).toBe(needed === 0 ? 0 : Math.max(current, Math.min(needed, MAIN.max)));
      // A second application changes nothing.
      expect(capacityOf(MAIN, runs, capacity, 0)).toBe(capacity);
    }),
  );
});

test("a run has one slot per needed worker, free unless a live worker holds it", () => {
  const agents = { main: { model: "m", delegates: ["searcher"], workers: 3 }, searcher: { model: "s" } };
  const fleetSlots = { "0": "w0", "1": "w1", "7": "old" };
  const workers = [workerOf("w0", "alive"), workerOf("w1", "dead"), workerOf("old", "alive")];
  const fleets = [{ ...emptyFleetRecord("test", "main"), fleetSlots }];
  expect(freeFleetSlots(viewOf({ config: { agents }, workers, fleets }), MAIN, 0)).toEqual(["1", "2"]);
  // A draining worker keeps its slot until it has left. A worker without a record has none.
  const draining = [workerOf("w0", "draining")];
  expect(freeFleetSlots(viewOf({ config: { agents }, workers: draining, fleets }), MAIN, 0)).toEqual(["1", "2"]);
  expect(freeFleetSlots(viewOf({ record: { status: "halted" }, fleets }), MAIN, 0)).toEqual([]);
});

test("the oldest run is served first, whatever the order of the list", () => {
  const runs = [30, 10, 20, 10].map((startedAt, i) => viewOf({ record: { startedAt, run: `r${i}` } }));
  const order = oldestFirst(runs).map(({ record }) => record.run);
  expect(order).toEqual(["r1", "r3", "r2", "r0"]);
  expect(oldestFirst([...runs].reverse()).map(({ record }) => record.run)).toEqual(order);
});

test("a capacity request counts for the runs with a free slot, or, if none has one, for all runs that need the fleet", () => {
  const served = viewOf({
    record: { run: "served" },
    workers: [workerOf("w", "alive")],
    fleets: [{ ...emptyFleetRecord("served", "main"), fleetSlots: { "0": "w" } }],
  });
  const lacking = viewOf({ record: { run: "lacking" } });
  const over = viewOf({ record: { run: "over", status: "finished" } });
  const counted = (runs: RunRecords[]) =>
    countCapacityRequests(MAIN, runs, 0).flatMap((command) => (command.kind === "update" ? command.change : []));
  expect(counted([served, lacking, over])).toEqual([countCapacityRequest(emptyFleetRecord("lacking", "main"), 1)]);
  expect(counted([served, over])).toEqual([countCapacityRequest(served.fleets[0] ?? emptyFleetRecord("", ""), 1)]);
  expect(counted([over])).toEqual([]);
});

test("after too many capacity requests at one step the run gives up on the fleet, and is halted once no worker is left; progress resets the count", () => {
  const withRequests = (capacityRequests: number, progress: number, workers: readonly WorkerRecord[] = []) =>
    viewOf({ fleets: [{ ...emptyFleetRecord("test", "searcher"), capacityRequests, progress }], workers });
  expect(workersNeeded(withRequests(MAX_CAPACITY_REQUESTS, 1), SEARCHER, 0)).toBe(1);
  expect(haltUnserved(withRequests(MAX_CAPACITY_REQUESTS, 1), FLEETS)).toEqual([]);
  const lost = withRequests(MAX_CAPACITY_REQUESTS + 1, 1);
  expect(needs(lost)).toEqual([1, 0, 0]);
  const [halt] = haltUnserved(lost, FLEETS);
  const reason = expect.stringMatching(/fleet searcher came up 5 times without completing step 1; .*logs\/searcher\//);
  expect(halt).toEqual({ kind: "update", change: endRun("test", { code: "unserved", reason }) });
  const atWork = (state: WorkerRecord["state"]) =>
    withRequests(MAX_CAPACITY_REQUESTS + 1, 1, [workerOf("w", state, "searcher")]);
  expect(haltUnserved(atWork("alive"), FLEETS)).toEqual([]);
  expect(haltUnserved(atWork("dead"), FLEETS)).toEqual([halt]);
  expect(needs(withRequests(MAX_CAPACITY_REQUESTS + 1, 0))).toEqual([1, 1, 0]);
  expect(haltUnserved(withRequests(MAX_CAPACITY_REQUESTS + 1, 0), FLEETS)).toEqual([]);
});

test("giving up on an evaluation fleet halts no run; the end of training resets its count", () => {
  const jobs = [jobOf("all", "done"), jobOf("all", "queued", 2)];
  const fleets = [{ ...emptyFleetRecord("test", "eval"), capacityRequests: MAX_CAPACITY_REQUESTS + 1, progress: 1 }];
  const run = viewOf({ jobs, fleets });
  expect([needs(run), haltUnserved(run, FLEETS)]).toEqual([[1, 1, 0], []]);
  expect(needs(viewOf({ jobs, fleets, record: { status: "finished" } }))).toEqual([0, 0, 1]);
  const again = [{ ...emptyFleetRecord("test", "eval"), capacityRequests: MAX_CAPACITY_REQUESTS + 1, progress: 2 }];
  const ended = viewOf({ jobs, fleets: again, record: { status: "finished" } });
  expect([needs(ended), isActive(ended, FLEETS, 0)]).toEqual([[0, 0, 0], false]);
});

test("an evaluator at work is kept when the run gives up on its fleet; no other takes a slot", () => {
  const given = { ...emptyFleetRecord("test", "eval"), fleetSlots: { "0": "busy", "1": "gone" } };
  const fleets = [{ ...given, capacityRequests: MAX_CAPACITY_REQUESTS + 1 }];
  const config = { evaluation: { every: 1, suites: [{ name: "all" }], workers: 2 } };
  const jobs = [jobOf("all", "leased"), jobOf("all", "queued", 1)];
  const after = (state: WorkerRecord["state"]) =>
    viewOf({ config, jobs, fleets, workers: [workerOf("busy", state, "*"), workerOf("gone", "dead", "*")] });
  for (const state of ["alive", "draining"] as const) {
    expect([workersNeeded(after(state), EVAL, 0), capacityOf(EVAL, [after(state)], 1, 0)]).toEqual([1, 1]);
    expect(freeFleetSlots(after(state), EVAL, 0)).toEqual([]);
  }
  expect(capacityOf(EVAL, [after("dead")], 1, 0)).toBe(0);
});

test("after a refusal, a run keeps its workers and gets no new ones of that release; with none left it is halted", () => {
  const agents = { main: { model: "m", delegates: ["searcher"], workers: 2 }, searcher: { model: "s" } };
  const refused = (release: string, workers: readonly WorkerRecord[], agent = "main") =>
    viewOf({
      config: { agents },
      workers,
      fleets: [
        {
          ...emptyFleetRecord("test", agent),
          fleetSlots: { "0": "gone", "1": "w" },
          refusal: { release, reason: "why" },
        },
      ],
    });
  const kept = refused("1", [workerOf("gone", "dead"), workerOf("w", "alive")]);
  expect([workersNeeded(kept, MAIN, 0), freeFleetSlots(kept, MAIN, 0), haltUnserved(kept, FLEETS)]).toEqual([
    1,
    [],
    [],
  ]);
  expect(capacityOf(MAIN, [kept], 1, 0)).toBe(1);
  const unserved = refused("1", [workerOf("gone", "dead"), workerOf("w", "dead")]);
  expect([workersNeeded(unserved, MAIN, 0), capacityOf(MAIN, [unserved], 0, 0)]).toEqual([0, 0]);
  const reason = "instances of fleet main do not serve the run: why; fix it, then launch the run again";
  expect(haltUnserved(unserved, FLEETS)).toEqual([
    { kind: "update", change: endRun("test", { code: "unserved", reason }) },
  ]);
  // A worker that was started by hand.
  const byHand = refused("1", [workerOf("gone", "dead"), workerOf("mine", "alive")]);
  expect(haltUnserved(byHand, FLEETS)).toEqual([]);
  // Another release is not refused.
  const deployed = refused("0", [workerOf("gone", "dead"), workerOf("w", "alive")]);
  expect([workersNeeded(deployed, MAIN, 0), freeFleetSlots(deployed, MAIN, 0)]).toEqual([2, ["0"]]);
});
