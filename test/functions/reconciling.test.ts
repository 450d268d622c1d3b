/**
 * @file Reconciling a deployment: capacities follow the runs, an Auto Scaling group is written to only if its capacity changes, and the
 * schedule is turned off when no work is left.
 */
import { expect, test } from "vitest";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import type { RunConfigInput } from "../../core/contracts/config.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { FleetRecord } from "../../core/contracts/fleet-record.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { JobRecord, RunRecord, StepRecord, type WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { claimFleetSlot } from "../../core/training/fleet-writes.ts";
import { MAX_CAPACITY_REQUESTS } from "../../core/training/fleets.ts";
import { finishJob } from "../../core/training/job-writes.ts";
import { endRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { controlPlane, memoryControls } from "../fakes/control-plane.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { playRollout, prepare, publish, rewards, teamConfig } from "../fakes/scripted-team.ts";

const HOUR = 3_600_000;
const TEAM: Deployment["fleets"] = [
  { name: "main", agent: "main", roles: ["rollout", "train"], group: "g-main", max: 4, release: "1" },
  { name: "searcher", agent: "searcher", roles: ["rollout", "train"], group: "g-searcher", max: 4, release: "1" },
  { name: "eval", agent: "*", roles: ["eval"], group: "g-eval", max: 2, release: "1" },
];

async function deployed(fleets = TEAM) {
  const store = memoryStore();
  let time = 0;
  store.clock.storeTime = async () => time;
  const deployment: Deployment = { release: "1", bucket: "b", clockRule: "clock", fleets };
  await store.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  const plane = controlPlane(fleets.map(({ group }) => group));
  const controls = memoryControls(plane);
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards, controlsOf: () => controls }));
  const start = async (input: Partial<RunConfigInput> = {}) => {
    const config = teamConfig(input);
    await functions.startRun(await prepare(store.objects, config));
    return config;
  };
  /** One scheduled tick, a minute after the last by default. Returns its writes to the deployment. */
  const minute = async (ms = 60_000) => {
    time += ms;
    plane.writes.length = 0;
    await functions.tickAll();
    const { failures } = await functions.reconcile();
    expect(failures).toEqual([]);
    return [...plane.writes];
  };
  const run = async (name = "test") => RunRecord.parse(await store.table.get(tableKeys.run(name)));
  const addWorker = async (worker: string, agent: string, name = "test") => {
    const record: WorkerRecord = {
      ...{ run: name, worker, agent, roles: ["rollout"], url: "", state: "alive", release: "1", inFlight: [] },
      ...{ counter: 1, seenCounter: -1, seenAt: time },
    };
    await store.table.insert(tableKeys.worker(name, worker), record);
    const item = FleetRecord.parse(await store.table.get(tableKeys.fleet(name, agent)));
    expect(await store.table.update(claimFleetSlot(item, "0", worker))).toMatchObject({ applied: true });
  };
  const capacityRequests = async (fleet: string, name = "test") =>
    FleetRecord.parse(await store.table.get(tableKeys.fleet(name, fleet))).capacityRequests;
  return { store, functions, plane, controls, start, minute, run, addWorker, capacityRequests };
}

test("capacity over a run's life: workers when it starts, evaluators while there are jobs, nothing when it is over", async () => {
  const { store, functions, plane, start, minute, run, addWorker } = await deployed();
  const config = await start({ steps: 1 });
  expect(plane.writes).toEqual(["clock on"]);
  expect(await minute()).toEqual(["g-main 1", "g-searcher 1", "g-eval 1"]);
  for (const agent of ["main", "searcher"]) await addWorker(`${agent}-1`, agent);
  expect(await minute(1000)).toEqual([]);

  const jobs = async () =>
    (await store.table.query(tableKeys.run("test").pk, tablePrefixes.jobs)).map((item) => JobRecord.parse(item));
  const score = { n: 1, correct: 1, runs: [{ n: 1, correct: 1 }], interval: { low: 0, high: 1 } };
  const evaluated = async (team: number, suite: string) => {
    const job = (await jobs()).find((one) => one.team === team && one.suite === suite);
    if (job) await store.table.update(finishJob(job, score));
  };
  await evaluated(0, "all");
  expect(await minute(1000)).toEqual(["g-eval 0"]);

  const step = StepRecord.parse(await store.table.get(tableKeys.step("test", 0)));
  for (const g of step.groups.keys())
    for (let k = 0; k < config.rolloutsPerQuestion; k++)
      await functions.scoreRollout({ key: await playRollout(store.objects, config, step, g, k) });
  for (const agent of step.trained)
    await functions.manifestCreated({ key: await publish(store.objects, config, agent, 1) });
  expect(await run()).toMatchObject({ status: "finished" });
  expect(await minute(1000)).toEqual(["g-main 0", "g-searcher 0", "g-eval 1"]);
  for (const { team, suite } of await jobs()) await evaluated(team, suite);
  expect(await minute(1000)).toEqual(["g-eval 0", "clock off"]);
  expect(plane).toMatchObject({
    capacities: new Map([...plane.capacities.keys()].map((group) => [group, 0])),
    clock: "off",
  });
});

test("a start turns the schedule on only after it has written RUN: otherwise a tick in between would find no run and turn the schedule off", async () => {
  const { store, controls, start } = await deployed();
  const { turn } = controls.scheduleSwitch;
  const turns: unknown[] = [];
  controls.scheduleSwitch.turn = async (to) => {
    turns.push([to, (await store.table.get(tableKeys.run("test")))?.["status"]]);
    await turn(to);
  };
  await start();
  expect(turns).toEqual([["on", "running"]]);
});

test("a fleet whose Auto Scaling group is gone is reported, and the other fleets are still scaled to zero", async () => {
  const { store, functions, plane, start, minute } = await deployed();
  await start();
  expect(await minute()).toEqual(["g-main 1", "g-searcher 1", "g-eval 1"]);
  plane.capacities.delete("g-main");
  await store.table.update(endRun("test", { code: "user", reason: "by hand" }));
  plane.writes.length = 0;
  const { failures } = await functions.reconcile();
  expect(failures).toMatchObject([
    { code: "deployment-unreachable", message: expect.stringMatching(/^fleet main: .* no Auto Scaling group g-main/) },
  ]);
  // The schedule stays on: the failure must keep being reported.
  expect(plane.writes).toEqual(["g-searcher 0", "g-eval 0"]);
});

test("a run that has spent its budget loses its machines in the tick that halts it, and the schedule is turned off", async () => {
  const { store, functions, start, minute, run, plane } = await deployed();
  await start({ budget: { hours: 1 } });
  await minute(HOUR / 2);
  await start({ run: "cheap", budget: { hours: 10 } });
  const { runs } = (await functions.reconcile()).metrics;
  expect(Object.fromEntries(runs.map((one) => [one.run, one.spent]))).toEqual({ test: 0.5, cheap: 0 });
  await store.table.update(endRun("cheap", { code: "user", reason: "by hand" }));
  expect(await minute(HOUR / 2)).toEqual(["g-main 0", "g-searcher 0", "g-eval 0", "clock off"]);
  expect(await run()).toMatchObject({ status: "halted", reason: expect.stringContaining("budget is spent") });
  expect(plane.clock).toBe("off");
});

test("a run that ends takes no machine from another: idle instances terminate themselves", async () => {
  const { store, start, minute, plane } = await deployed(TEAM.slice(0, 2));
  await start({ run: "a", evaluation: { suites: [] } });
  await start({ run: "b", evaluation: { suites: [] } });
  expect(await minute()).toEqual(["g-main 2", "g-searcher 2"]);
  await store.table.update(endRun("a", { code: "user", reason: "by hand" }));
  expect(await minute()).toEqual([]);
  // An instance of run 'a' lowered the capacity when it terminated itself.
  plane.capacities.set("g-main", 1);
  expect(await minute()).toEqual([]);
  await store.table.update(endRun("b", { code: "user", reason: "by hand" }));
  expect(await minute()).toEqual(["g-main 0", "g-searcher 0", "clock off"]);
});

test("instances that make no progress are not replaced forever: the run is halted, and gets new ones when it is resumed", async () => {
  const { store, start, minute, run, plane, capacityRequests } = await deployed();
  const config = await start();
  for (let request = 1; request <= MAX_CAPACITY_REQUESTS; request++) {
    expect((await minute())[0]).toBe("g-main 1");
    expect(await capacityRequests("main")).toBe(request);
    // The instance terminates itself, for example because it has no GPU driver.
    plane.capacities.set("g-main", 0);
  }
  expect(await run()).toMatchObject({ status: "running" });
  expect(await minute()).toEqual([]);
  await minute();
  expect(await run()).toMatchObject({
    status: "halted",
    reason: expect.stringContaining("fleet main came up 5 times"),
  });
  expect([...plane.capacities.values(), plane.clock]).toEqual([0, 0, 0, "off"]);
  await resumeInStore(store, config, await run(), {});
  expect((await minute())[0]).toBe("g-main 1");
  expect(await capacityRequests("main")).toBe(1);
});

test("a request for instances is counted even if the crashed worker is not marked dead yet", async () => {
  const { start, minute, plane, addWorker, capacityRequests } = await deployed(TEAM.slice(0, 1));
  await start();
  await minute(0);
  await addWorker("w", "main");
  plane.capacities.set("g-main", 0);
  expect(await minute(0)).toEqual(["g-main 1"]);
  expect(await capacityRequests("main")).toBe(2);
});

test("capacity never exceeds the fleet's maximum", async () => {
  const { start, minute } = await deployed([{ ...(TEAM[0] as (typeof TEAM)[0]), max: 2 }]);
  for (const run of ["a", "b", "c"]) await start({ run });
  expect(await minute()).toEqual(["g-main 2"]);
  expect(await minute()).toEqual([]);
});

test("a fleet that cannot be scaled is reported; the others are still scaled, and the schedule stays on", async () => {
  const { store, functions, plane, controls, start, minute } = await deployed();
  await start();
  await minute();
  await store.table.update(endRun("test", { code: "user", reason: "by hand" }));
  const { write } = controls.capacities;
  controls.capacities.write = async (group, instances) => {
    if (group === "g-main") throw new Error("AWS says no");
    await write(group, instances);
  };
  expect((await functions.reconcile()).failures).toEqual([new Error("AWS says no")]);
  expect(Object.fromEntries(plane.capacities)).toEqual({ "g-main": 1, "g-searcher": 0, "g-eval": 0 });
  expect(plane.clock).toBe("on");
  controls.capacities.write = write;
  expect(await minute()).toEqual(["g-main 0", "clock off"]);
});

test("a fleet whose request cannot be counted is reported; the others are still scaled", async () => {
  const { store, functions, plane, start } = await deployed();
  await start();
  const { update } = store.table;
  store.table.update = async (change) => {
    if (change.key.sk === tableKeys.fleet("test", "main").sk) throw new Error("the store says no");
    return update(change);
  };
  expect((await functions.reconcile()).failures).toEqual([new Error("the store says no")]);
  expect(Object.fromEntries(plane.capacities)).toEqual({ "g-main": 0, "g-searcher": 1, "g-eval": 1 });
  expect(plane.clock).toBe("on");
});

test("a request for instances that fails is not counted: the run waits until one succeeds", async () => {
  const { functions, controls, start, minute, run, capacityRequests } = await deployed(TEAM.slice(0, 1));
  await start();
  const { write } = controls.capacities;
  controls.capacities.write = () => Promise.reject(new Error("AWS says no"));
  for (let request = 0; request <= MAX_CAPACITY_REQUESTS; request++) {
    await functions.tickAll();
    expect((await functions.reconcile()).failures).toEqual([new Error("AWS says no")]);
    expect(await capacityRequests("main")).toBe(0);
  }
  expect(await run()).toMatchObject({ status: "running" });
  controls.capacities.write = write;
  expect(await minute()).toEqual(["g-main 1"]);
  expect(await capacityRequests("main")).toBe(1);
});

test("a retried tick that cannot read the fleets turns the schedule on: an earlier attempt may have turned it off and died", async () => {
  const { functions, plane, controls, start } = await deployed();
  await start();
  plane.clock = "off";
  controls.capacities.read = () => Promise.reject(new Error("AWS does not answer"));
  expect((await functions.reconcile()).failures).toEqual([new Error("AWS does not answer")]);
  expect(plane.clock).toBe("on");
});

test("capacity changes are reported even if the schedule cannot be turned off", async () => {
  const { store, functions, controls, start, minute } = await deployed(TEAM.slice(0, 1));
  await start();
  await minute();
  await store.table.update(endRun("test", { code: "user", reason: "by hand" }));
  controls.scheduleSwitch.turn = () => Promise.reject(new Error("AWS says no"));
  expect(await functions.reconcile()).toMatchObject({
    changes: [{ fleet: "main", from: 1, to: 0 }],
    failures: [new Error("AWS says no")],
  });
});

test("a run with damaged records gets no machines and keeps the schedule on; the others are served, and a store that fails takes no machine away", async () => {
  const { store, functions, plane, start } = await deployed();
  await start({ run: "good" });
  await start({ run: "bad" });
  await store.table.insert(tableKeys.worker("bad", "w"), { nonsense: true });
  const { failures, metrics } = await functions.reconcile();
  expect(failures).toMatchObject([{ code: "record-damaged" }]);
  expect(metrics).toEqual({ unserved: 2, runs: [{ run: "good", idleMinutes: 0, spent: 0 }] });
  const { query } = store.table;
  for (const retryable of [true, false]) {
    store.table.query = async (pk, prefix) => {
      if (prefix === tablePrefixes.workers) throw new MgrpoError("store-unreachable", "it fails", { retryable });
      return query(pk, prefix);
    };
    await expect(functions.reconcile()).rejects.toThrow("it fails");
    expect(plane.capacities.get("g-main")).toBe(1);
  }
  store.table.query = query;
  await store.table.update(endRun("good", { code: "user", reason: "by hand" }));
  await functions.reconcile();
  expect([plane.capacities.get("g-main"), plane.clock]).toEqual([0, "on"]);
});

test("without a deployment nothing is scaled, and the metrics are still returned", async () => {
  const store = memoryStore();
  const controlsOf = () => {
    throw new Error("there is nothing to open");
  };
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards, controlsOf }));
  await functions.startRun(await prepare(store.objects, teamConfig()));
  expect(await functions.reconcile()).toEqual({
    metrics: { unserved: 2, runs: [{ run: "test", idleMinutes: 0, spent: 0 }] },
    changes: [],
    failures: [],
  });
});
