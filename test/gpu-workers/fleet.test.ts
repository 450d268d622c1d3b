/** @file Fleet instances find the runs that need them: each slot belongs to one worker, and an idle instance moves on or ends. */
import { setMaxListeners } from "node:events";
import { expect, test, vi } from "vitest";
import type { Fleet } from "../../core/contracts/deployment.ts";
import { FleetRecord } from "../../core/contracts/fleet-record.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { JobRecord, RunRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import { endRun } from "../../core/training/writes.ts";
import { enterRun, findRunForFleet, readFleet } from "../../gpu-workers/fleet/find-run.ts";
import { serveFleet } from "../../gpu-workers/fleet/serve-fleet.ts";
import { createLog, type Log } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { serveWorker } from "../../gpu-workers/serve.ts";
import type { WorkerParts } from "../../gpu-workers/worker-process.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { repeatingTable } from "../fakes/repeating-table.ts";
import { prepare, teamConfig } from "../fakes/scripted-team.ts";
import { rewards } from "../fixtures/relay/rewards.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { tools } from "../fixtures/relay/tools.ts";
import { begin, openWorld, relayPolicies, TOKEN, withEvents } from "../fixtures/relay/world.ts";

const fleetOf = (agent: string, roles: Fleet["roles"] = ["rollout", "train"]): Fleet => ({
  name: agent === "*" ? "eval" : agent,
  agent,
  roles,
  group: agent,
  max: 4,
  release: "0.0.0",
});
const [MAIN, SEARCHER, EVAL] = [fleetOf("main"), fleetOf("searcher"), fleetOf("*", ["eval"])];
const never = new AbortController().signal;
setMaxListeners(0, never);
const silent = createLog(() => {});
const unexpected = (run: string, error: MgrpoError) => expect.unreachable(`${run}: ${error.message}`);

/** An instance; resolves when it would terminate itself. */
function instance(
  store: Store,
  fleet: Fleet,
  release = "0.0.0",
  log: Log = silent,
  scorerOf: WorkerParts["scorerOf"] = () => rewards,
): Promise<void> {
  const { agent, roles } = fleet;
  const address = { host: "127.0.0.1", port: 0, url: undefined, token: TOKEN };
  return serveFleet(
    {
      store,
      fleet,
      release,
      log,
      compose: async (run) => ({
        run: await readRunContext(run, release, store, log),
        tools,
        scorerOf,
        ...relayPolicies,
      }),
      serve: (parts, take) => serveWorker(parts, { ...address, agent, roles, supervised: false, enter: take }, never),
    },
    never,
  );
}

async function world(...runs: string[]) {
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(memory, () => functions, silent);
  for (const run of runs)
    await begin(store, functions, relayConfig({ run, evaluation: { suites: [{ name: "all" }] } }));
  const deploy = async (release: string) => {
    const fleets = [MAIN, SEARCHER, EVAL].map((fleet) => ({ ...fleet, release }));
    const deployment = JSON.stringify({ release, bucket: "b", clockRule: "c", fleets });
    await memory.table.insert(tableKeys.deployment, { deployment });
    await memory.table.update({ key: tableKeys.deployment, set: [[["deployment"], deployment]], when: [] });
  };
  await deploy("0.0.0");
  const records = async (run: string, prefix: string) => memory.table.query(tableKeys.run(run).pk, prefix);
  return {
    store,
    deploy,
    status: async (run: string) => RunRecord.parse(await memory.table.get(tableKeys.run(run))).status,
    fleetSlots: async (run: string) =>
      (await records(run, tablePrefixes.fleets)).map((item) => {
        const { fleet, fleetSlots } = FleetRecord.parse(item);
        return `${fleet} ${Object.keys(fleetSlots).join(",")}`;
      }),
    refusal: async (run: string, fleet = "main") => {
      const item = await memory.table.get(tableKeys.fleet(run, fleet));
      return item && FleetRecord.parse(item).refusal;
    },
    workers: async (run: string) => (await records(run, tablePrefixes.workers)).map((item) => WorkerRecord.parse(item)),
    openJobs: async (run: string) =>
      (await records(run, tablePrefixes.jobs)).filter((item) => JobRecord.parse(item).state !== "done").length,
  };
}

test("two instances of each agent fleet share two runs, serve them to the end, and terminate themselves", async () => {
  const { store, status, fleetSlots, workers, openJobs } = await world("a", "b");
  await instance(store, EVAL);
  // It did the evaluation jobs that both runs had, and did not wait for later ones.
  expect(await Promise.all(["a", "b"].map(openJobs))).toEqual([0, 0]);
  expect(await Promise.all(["a", "b"].map(status))).toEqual(["running", "running"]);
  await Promise.all([MAIN, SEARCHER, SEARCHER, MAIN].map((fleet) => instance(store, fleet)));
  expect(await Promise.all(["a", "b"].map(status))).toEqual(["finished", "finished"]);
  for (const run of ["a", "b"]) {
    expect((await fleetSlots(run)).filter((slot) => !slot.startsWith("eval"))).toEqual(["main 0", "searcher 0"]);
    expect((await workers(run)).every(({ state }) => state === "dead")).toBe(true);
    expect(await openJobs(run)).toBe(1);
  }
  await instance(store, EVAL);
  expect(await Promise.all(["a", "b"].map(openJobs))).toEqual([0, 0]);
});

test("an instance moves from one run to the next", async () => {
  const { store, status } = await world("a", "b");
  await Promise.all([instance(store, MAIN), instance(store, SEARCHER)]);
  expect(await Promise.all(["a", "b"].map(status))).toEqual(["finished", "finished"]);
});

/** A store with a run that needs three workers of the main agent. */
async function storeWithThreeSlots() {
  const store = memoryStore();
  const agents = { main: { model: "m", delegates: ["searcher"], workers: 3 }, searcher: { model: "s" } };
  const { functions } = openWorld(store);
  await functions.startRun(await prepare(store.objects, teamConfig({ agents, recipe: "relay" })));
  return store;
}

const insertWorker = ({ table }: Store, worker: string, state: WorkerRecord["state"]) =>
  table.insert(tableKeys.worker("test", worker), {
    ...{ run: "test", worker, agent: "main", roles: ["rollout"], url: "", state, counter: 0 },
    ...{ seenCounter: -1, seenAt: 0, release: "1", inFlight: [] },
  });

test("ten workers that start together take exactly the free slots", async () => {
  const store = await storeWithThreeSlots();
  const workers = Array.from({ length: 10 }, (_, i) => `w${i}`);
  await Promise.all(workers.map((worker) => insertWorker(store, worker, "alive")));
  const entered = await Promise.all(workers.map((worker) => enterRun(store, MAIN, "test", worker)));
  expect(entered.filter(Boolean)).toHaveLength(3);
  expect(await findRunForFleet(store, MAIN, new Set(), 0, never, unexpected)).toBeUndefined();
  expect(await findRunForFleet(store, SEARCHER, new Set(), 0, never, unexpected)).toBe("test");
  // One dies: only its slot is free.
  const gone = workers[entered.indexOf(true)] ?? "";
  await store.table.update({ key: tableKeys.worker("test", gone), set: [[["state"], "dead"]], when: [] });
  expect(await findRunForFleet(store, MAIN, new Set(), 0, never, unexpected)).toBe("test");
  await insertWorker(store, "late", "alive");
  expect(await enterRun(store, MAIN, "test", "late")).toBe(true);
  expect(await findRunForFleet(store, MAIN, new Set(), 0, never, unexpected)).toBeUndefined();
  await store.table.update(endRun("test", { code: "user", reason: "by hand" }));
  expect(await enterRun(store, MAIN, "test", "later")).toBe(false);
});

test("a worker that takes a slot has only that one, even if the response to its claim was lost", async () => {
  const store = await storeWithThreeSlots();
  await insertWorker(store, "w", "alive");
  const table = repeatingTable(store.table);
  expect(await enterRun({ ...store, table }, MAIN, "test", "w")).toBe(true);
  const record = FleetRecord.parse(await store.table.get(tableKeys.fleet("test", "main")));
  expect(record.fleetSlots).toEqual({ 0: "w" });
});

test("a run that this release cannot serve does not keep an instance from other runs; the reason is recorded", async () => {
  const { store, refusal } = await world("a", "b");
  const served: string[] = [];
  const service = {
    store,
    fleet: MAIN,
    release: "0.0.0",
    log: silent,
    compose: async (run: string) => {
      if (run === "a") throw new MgrpoError("recipe-invalid", "no such recipe in this release");
      return {
        run: await readRunContext(run, "0.0.0", store, silent),
        tools,
        scorerOf: () => rewards,
        ...relayPolicies,
      };
    },
    serve: async ({ run }: { run: { name: string } }) => {
      served.push(run.name);
      await store.table.update(endRun(run.name, { code: "user", reason: "by hand" }));
      throw new MgrpoError("run-halted", "halted");
    },
  };
  await serveFleet(service, never);
  expect([served, await refusal("a"), await refusal("b")]).toEqual([
    ["b"],
    { release: "0.0.0", reason: "no such recipe in this release" },
    undefined,
  ]);
});

test("once another release is deployed, or the fleet is gone, an instance takes no run", async () => {
  const { store, deploy, workers } = await world("a");
  await deploy("0.0.1");
  await instance(store, MAIN);
  expect(await workers("a")).toEqual([]);
  await instance(store, { ...MAIN, name: "gone" });
  expect(await workers("a")).toEqual([]);
});

test("an instance whose release differs from that of the run's workers ends without a failure and records why", async () => {
  const { store, deploy, workers, refusal } = await world("a");
  const first = instance(store, SEARCHER);
  await vi.waitFor(async () => expect(await workers("a")).toHaveLength(1), 60_000);
  await deploy("0.0.1");
  await instance(store, MAIN, "0.0.1");
  const [searcher] = await workers("a");
  expect(await refusal("a")).toEqual({
    release: "0.0.1",
    reason: expect.stringMatching(
      new RegExp(`worker '${searcher?.worker}' of run 'a' has release 0.0.0/.* this one has 0.0.1/`),
    ),
  });
  await store.table.update(endRun("a", { code: "user", reason: "by hand" }));
  await first;
});

test("an instance whose worker crashes fails with the worker's error", async () => {
  const crash = new MgrpoError("engine-unsupported", "out of memory");
  const dying = {
    store: (await world("a")).store,
    fleet: MAIN,
    release: "0.0.0",
    log: silent,
    compose: async () => "parts",
    serve: async (_: string, enter: (worker: string) => Promise<boolean>) => {
      await enter("w");
      throw crash;
    },
  };
  await expect(serveFleet(dying, never)).rejects.toBe(crash);
});

test("an instance without the key of a suite's judge records why before it registers, and ends without a failure", async () => {
  const { store, workers, refusal, openJobs } = await world("a");
  const keyless = () => Promise.reject(new MgrpoError("config-invalid", "MGRPO_JUDGE_KEY is not set"));
  await instance(store, EVAL, "0.0.0", silent, keyless);
  expect(await refusal("a", "eval")).toEqual({ release: "0.0.0", reason: "MGRPO_JUDGE_KEY is not set" });
  expect([await workers("a"), await openJobs("a")]).toEqual([[], 1]);
});

test("an unknown fleet, or a table without a deployment, is refused", async () => {
  const store = memoryStore();
  await expect(readFleet(store, "main")).rejects.toThrow(/belongs to no deployment/);
  const deployment = { release: "0.0.0", bucket: "b", clockRule: "c", fleets: [MAIN, SEARCHER] };
  await store.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  expect(await readFleet(store, "searcher")).toEqual(SEARCHER);
  await expect(readFleet(store, "eval")).rejects.toThrow(/no such fleet, only main, searcher/);
});

test("a damaged run is passed over with a warning; an instance without permission to read the bucket fails with the cause", async () => {
  const { store } = await world("a");
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  const reading = (objects: Partial<Store["objects"]>, patience: number, passed: string[]) =>
    findRunForFleet(
      { ...store, objects: { ...store.objects, ...objects } },
      ...([MAIN, new Set<string>(), patience, never] as const),
      (run, { code }) => passed.push(`${run} ${code}`),
    );
  const passed: string[] = [];
  expect(await reading({ get: async () => undefined }, 0, passed)).toBeUndefined();
  expect(passed).toEqual(["a not-found"]);
  const denied = new MgrpoError("store-unreachable", "S3: AccessDenied");
  await expect(reading({ get: () => Promise.reject(denied) }, 0, passed)).rejects.toBe(denied);

  // The instance warns once, however often it looks, and ends.
  const clock = {
    ...store.clock,
    sleep: async () => {},
    monotonic: (
      (now) => () =>
        (now += 100)
    )(0),
  };
  const damaged = { ...store, clock, objects: { ...store.objects, get: async () => undefined } };
  await instance(damaged, MAIN, "0.0.0", log);
  expect(lines.filter((line) => line.includes("run skipped"))).toHaveLength(1);
});
