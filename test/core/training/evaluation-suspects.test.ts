/** @file Suspects of an evaluation, worked by hand: which rollouts a crash makes suspects, which it counts against, and which are forgotten. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JobRecord } from "../../../core/contracts/records.ts";
import { inFlightNames, nameInJob, namesOfJob, suspectsAfter } from "../../../core/training/evaluation-suspects.ts";
import { finishJob, leaseJob, releaseJob } from "../../../core/training/job-writes.ts";
import { rolloutAlone } from "../../../core/training/liveness.ts";
import { memoryTable } from "../../fakes/memory-store.ts";

test.each([
  ["nothing in flight: nothing is known", undefined, [], {}],
  ["nothing in flight: earlier suspects are kept", { "0/0": 1, "1/0": 3 }, [], { "0/0": 1, "1/0": 3 }],
  ["several in flight: each is a suspect, and none is to blame", undefined, ["0/0", "1/0"], { "0/0": 0, "1/0": 0 }],
  [
    "a suspect that ran alone: one more crash, and the others are still suspects",
    { "0/0": 0, "1/0": 1 },
    ["1/0"],
    { "0/0": 0, "1/0": 2 },
  ],
  ["a rollout alone in flight: the crash counts against it", undefined, ["4/0"], { "4/0": 1 }],
  ["others in flight: earlier suspects are forgotten", { "0/0": 2, "1/0": 0 }, ["2/0", "3/0"], { "2/0": 0, "3/0": 0 }],
  ["another in flight: an abandoned suspect is kept", { "0/0": 3, "1/0": 0 }, ["2/0"], { "0/0": 3, "2/0": 1 }],
])("%s", (_case, suspects, inFlight, after) => {
  expect(suspectsAfter(suspects, inFlight, 3)).toEqual(after);
});

test("however often workers crash, there are no more suspects than slots, not counting those abandoned", () => {
  const name = fc.integer({ min: 0, max: 30 }).map((group) => `${group}/0`);
  const crash = fc.uniqueArray(name, { maxLength: 4 });
  fc.assert(
    fc.property(fc.array(crash), (crashes) => {
      let suspects: Record<string, number> = {};
      for (const inFlight of crashes) suspects = suspectsAfter(suspects, inFlight, 3);
      expect(Object.values(suspects).filter((count) => count < 3).length).toBeLessThanOrEqual(4);
    }),
  );
});

test("a worker's record names the rollouts of its job, and a crash in them counts against no training rollout", () => {
  const inFlight = inFlightNames("suite-1", [nameInJob({ group: 3, rollout: 1 })]);
  expect(inFlight).toEqual(["eval:suite-1/3/1"]);
  expect(namesOfJob("suite-1", [...inFlight, "0/1/2"])).toEqual(["3/1"]);
  expect(namesOfJob("suite-2", inFlight)).toEqual([]);
  const worker = { run: "r", worker: "w", agent: "*", roles: ["eval" as const], url: "", state: "dead" as const };
  const seen = { counter: 1, seenCounter: 1, seenAt: 0, release: "1" };
  expect(rolloutAlone({ ...worker, ...seen, inFlight })).toBeUndefined();
  expect(rolloutAlone({ ...worker, ...seen, inFlight: ["0/1/2"] })).toEqual({ step: 0, group: 1, rollout: 2 });
});

test("leasing and releasing a job record its suspects; a finished job has none, so that a reopened job tries every rollout again", async () => {
  const job: JobRecord = {
    ...{ run: "r", job: "j", team: 0, suite: "s", state: "queued", owner: "", fence: 0 },
    ...{ n: 0, correct: 0, runs: [], interval: { low: 0, high: 1 } },
  };
  const table = memoryTable();
  const lease = leaseJob(job, "w", { "0/0": 0 });
  await table.insert(lease.key, job);
  expect((await table.update(lease)).item).toMatchObject({ owner: "w", fence: 1, suspects: { "0/0": 0 } });
  expect(await table.update(lease)).toMatchObject({ applied: false, item: { fence: 1 } });
  const released = (await table.update(releaseJob(job, "w", { "0/0": 1 }))).item;
  expect(released).toMatchObject({ state: "queued", owner: "", suspects: { "0/0": 1 } });
  const done = (await table.update(finishJob({ ...job, state: "queued" }, job))).item;
  expect(done).toMatchObject({ state: "done" });
  expect(done).not.toHaveProperty("suspects");
});
