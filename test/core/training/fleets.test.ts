/** @file How many workers runs need from each fleet, the capacity that follows, and which slots are free. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { FleetRecord } from "../../../core/contracts/fleet-record.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { JobRecord, RunRecord } from "../../../core/contracts/records.ts";
import { countCapacityRequest } from "../../../core/training/fleet-writes.ts";
import {
  capacityOf,
  countCapacityRequests,
  emptyFleetRecord,
  freeFleetSlots,
  isActive,
  oldestFirst,
  type RunRecords,
  uncountCapacityRequests,
  withCapacityRequests,
  workersNeeded,
} from "../../../core/training/fleets.ts";
import type { StoreCommand } from "../../../core/training/store-commands.ts";
import { memoryTable } from "../../fakes/memory-store.ts";
import { FLEETS, fleetOf, givenUp, jobOf, MAIN, needs, SEARCHER, viewOf, workerOf } from "./fleet-runs.ts";

const HOUR = 3_600_000;

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

test("a run over its budget needs no workers in any state; if there is an evaluation fleet, a run needs ticks exactly while it is running or needs workers", () => {
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
  const finished = (state: JobRecord["state"], fleets: readonly FleetRecord[] = []) =>
    viewOf({ record: { status: "finished" }, jobs: [jobOf("all", state)], fleets });
  for (const deployed of [[], [MAIN, SEARCHER]]) {
    expect(isActive(finished("queued"), deployed, 0)).toBe(true);
    expect(isActive(finished("done"), deployed, 0)).toBe(false);
    // An earlier deployment had one that the run gave up on.
    expect(isActive(finished("queued", [givenUp("eval", 1)]), deployed, 0)).toBe(true);
  }
});

test("a finished run with open jobs needs ticks until it gives up on every evaluation fleet", () => {
  const run = viewOf({
    record: { status: "finished" },
    jobs: [jobOf("all", "queued")],
    fleets: [givenUp("eval-small", 1)],
  });
  const [small, large] = [fleetOf("eval-small", "*", ["eval"]), fleetOf("eval-large", "*", ["eval"])];
  expect([isActive(run, [small, large], 0), isActive(run, [small], 0)]).toEqual([true, false]);
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

async function execute(table: ReturnType<typeof memoryTable>, commands: readonly StoreCommand[]): Promise<void> {
  for (const command of commands) {
    if (command.kind === "insert") for (const { key, item } of command.items) await table.insert(key, item);
    else if (command.kind === "update") await table.update(command.change);
    else expect.fail(command.kind);
  }
}

test("a run's first capacity request creates the fleet's record; taking it back leaves a count of 0", async () => {
  const table = memoryTable();
  const record = () => table.get(tableKeys.fleet("test", "main"));
  const run = viewOf({ record: { step: 7 } });
  const empty = emptyFleetRecord("test", "main");
  await execute(table, countCapacityRequests(MAIN, [run], 0));
  expect(await record()).toEqual({ ...empty, progress: 7, capacityRequests: 1 });
  await execute(table, uncountCapacityRequests(MAIN, [run], 0));
  expect(await record()).toEqual(empty);
});

test("withCapacityRequests gives the runs that the store holds after countCapacityRequests, and leaves other runs and fleets as they are", async () => {
  const table = memoryTable();
  const ofSearcher = { ...emptyFleetRecord("new", "searcher"), capacityRequests: 2 };
  const known = { ...emptyFleetRecord("known", "main"), progress: 1, capacityRequests: 3, fleetSlots: { "1": "old" } };
  await table.insert(tableKeys.fleet("known", "main"), known);
  const runs = [
    viewOf({ record: { run: "new" }, fleets: [ofSearcher] }),
    viewOf({ record: { run: "over", status: "finished" }, fleets: [emptyFleetRecord("over", "main")] }),
    viewOf({ record: { run: "known" }, fleets: [known] }),
  ];
  const [first, over, counted] = withCapacityRequests(MAIN, runs, 0);
  expect([first?.record, over, counted?.record]).toEqual([runs[0]?.record, runs[1], runs[2]?.record]);
  await execute(table, countCapacityRequests(MAIN, runs, 0));
  expect(first?.fleets).toEqual([ofSearcher, await table.get(tableKeys.fleet("new", "main"))]);
  expect(counted?.fleets).toEqual([await table.get(tableKeys.fleet("known", "main"))]);
  expect(counted?.fleets).toEqual([{ ...known, capacityRequests: 4 }]);
});
