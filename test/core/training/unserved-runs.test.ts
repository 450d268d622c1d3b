/** @file When a run gives up on a fleet or is refused by it: it keeps its workers, gets no new ones, and is halted once a role of an agent has none. */
import { expect, test } from "vitest";
import type { WorkerRecord } from "../../../core/contracts/records.ts";
import {
  capacityOf,
  emptyFleetRecord,
  freeFleetSlots,
  haltUnserved,
  isActive,
  MAX_CAPACITY_REQUESTS,
  workersNeeded,
} from "../../../core/training/fleets.ts";
import { endRun } from "../../../core/training/writes.ts";
import { EVAL, FLEETS, givenUp, jobOf, MAIN, needs, SEARCHER, viewOf, workerOf } from "./fleet-runs.ts";

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

test("a run that gave up on several fleets is halted with the names and logs of all; one that has ended is not halted", () => {
  const fleets = [givenUp("main", 1), givenUp("searcher", 1)];
  const reason =
    "instances of fleet main, searcher came up 5 times without completing step 1; the newest logs under logs/main/, logs/searcher/ in the bucket say why; fix it, then launch the run again";
  expect(haltUnserved(viewOf({ fleets }), FLEETS)).toEqual([
    { kind: "update", change: endRun("test", { code: "unserved", reason }) },
  ]);
  for (const status of ["finished", "halted"] as const)
    expect(haltUnserved(viewOf({ fleets, record: { status } }), FLEETS)).toEqual([]);
});

test("a run that gave up on a fleet continues while live workers of its agent have each role that is needed: a frozen agent needs no trainer", () => {
  const fleets = [givenUp("searcher", 1)];
  const sampler = { ...workerOf("w", "alive", "searcher"), roles: ["rollout" as const] };
  const isHalted = (trained: boolean, ...workers: readonly WorkerRecord[]) => {
    const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained } };
    return haltUnserved(viewOf({ config: { agents }, fleets, workers }), FLEETS).length > 0;
  };
  expect([isHalted(true, sampler), isHalted(false, sampler)]).toEqual([true, false]);
  expect([isHalted(true), isHalted(false)]).toEqual([true, true]);
  expect(isHalted(true, sampler, { ...sampler, worker: "t", roles: ["train"] })).toBe(false);
  expect(isHalted(true, workerOf("other", "alive", "main"))).toBe(true);
});

test("giving up on an evaluation fleet halts no run; the end of training resets its count", () => {
  const jobs = [jobOf("all", "done"), jobOf("all", "queued", 2)];
  const fleets = [givenUp("eval", 1)];
  const run = viewOf({ jobs, fleets });
  expect([needs(run), haltUnserved(run, FLEETS)]).toEqual([[1, 1, 0], []]);
  expect(needs(viewOf({ jobs, fleets, record: { status: "finished" } }))).toEqual([0, 0, 1]);
  const ended = viewOf({ jobs, fleets: [givenUp("eval", 2)], record: { status: "finished" } });
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
