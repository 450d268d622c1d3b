/**
 * @file The live state of a run, as lists of runs show it, from a single read: cost, heartbeat, wait, and a stall that
 * began before the read.
 */
import { expect, test } from "vitest";
import { followRun } from "../../cli/local/follow.ts";
import { readLive } from "../../cli/local/live.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { AgentRecord, WorkerRecord } from "../../core/contracts/records.ts";
import type { TableChange } from "../../core/ports.ts";
import { expiryOf } from "../../core/training/retention.ts";
import { progressOf } from "../../core/training/run-list.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { config, groups, RUN, step, storeOfFinishedRun, worker } from "./records.ts";

const agents: AgentRecord[] = ["main", "searcher"].map((agent) => ({
  ...{ run: RUN, agent, version: 0, trainer: "", fence: 0, takeovers: 0 },
}));
const open = { ...step, state: "open" as const };

const NOW = 2_000_000_000_000;

/** A store with a run in its first step, which has these workers and this entry in the list of runs. */
async function runningStore(workers: readonly WorkerRecord[], listed: object) {
  const store = memoryStore();
  const run = { run: RUN, status: "running", reason: "", step: 0, startedAt: 0, maxHours: null, maxUsd: null };
  const hashes = { configSha256: "0".repeat(64), questionsSha256: "1".repeat(64) };
  await store.table.insert(tableKeys.run(RUN), { ...run, ...hashes });
  await store.table.insert(tableKeys.step(RUN, 0), { ...open });
  for (const group of groups) await store.table.insert(tableKeys.group(RUN, 0, group.group), { ...group });
  for (const one of agents) await store.table.insert(tableKeys.agent(RUN, one.agent), { ...one });
  for (const one of workers) await store.table.insert(tableKeys.worker(RUN, one.worker), { ...one });
  await store.table.insert(tableKeys.listed(RUN), { run: RUN, ...listed });
  return store;
}

test("a run in progress shows its cost, the newest heartbeat of a living worker and what it waits for", async () => {
  const priced = RunConfig.parse({ ...config, budget: { usd: 9, usdPerWorkerHour: { main: 3, "*": 0 } } });
  const store = await runningStore([], {});
  store.clock.storeTime = async () => NOW;
  // 600 seconds of heartbeats at $3 an hour: $0.50. The newest heartbeat is the dead worker's, and is not shown.
  const ages = { main: 8, searcher: 30, gone: 1 };
  for (const [name, age] of Object.entries(ages)) {
    const beats = name === "main" ? 600 / priced.liveness.heartbeatSeconds : 1;
    const one = worker(name, name === "gone" ? "dead" : "alive");
    const record = { ...one, seenAt: NOW - age * 1000, counter: beats, seenCounter: beats };
    await store.table.insert(tableKeys.worker(RUN, one.worker), { ...record });
  }
  const live = await readLive(store, priced, null);
  expect(live.usd).toBeCloseTo(0.5, 10);
  expect(live).toMatchObject({ heartbeatSeconds: 8, wait: "rollouts 4/4", stall: null });
});

test("the first read shows a stall, timed from when a tick recorded the progress", async () => {
  const progress = progressOf(open, groups, agents);
  const store = await runningStore([], {});
  store.clock.storeTime = async () => NOW;
  const liveWith = async (item: object) => {
    const { table } = await runningStore([], item);
    return readLive({ ...store, table }, config, null);
  };
  const { stall, wait, heartbeatSeconds } = await liveWith({ progress, progressAt: NOW - 1_000_000 });
  expect(wait).toBe("waiting for: main/rollout, searcher/rollout");
  expect(heartbeatSeconds).toBeNull();
  expect(stall).toMatch(/^nothing has changed in step 0 since .* for 1000 s: /);
  expect(await liveWith({ progress: "0/open/1/0", progressAt: NOW - 1_000_000 })).toMatchObject({ stall: null });
});

test("if nobody timed the steps, the records say how long one takes, and no stall is shown before three times that long", async () => {
  const store = await runningStore(
    [
      { ...worker("main"), seenAt: NOW },
      { ...worker("searcher"), seenAt: NOW },
    ],
    {},
  );
  store.clock.storeTime = async () => NOW;
  await store.table.update({ key: tableKeys.run(RUN), set: [[["step"], 3]], when: [] });
  const ready = { ...step, step: 3, state: "ready" as const };
  for (const closed of [1, 2]) await store.table.insert(tableKeys.step(RUN, closed), { ...step, step: closed });
  await store.table.insert(tableKeys.step(RUN, 3), { ...ready });
  const training = agents.map((one) => ({ ...one, version: 3, trainer: `${one.agent}-1` }));
  for (const { agent, version, trainer } of training) {
    const set: TableChange["set"] = [
      [["version"], version],
      [["trainer"], trainer],
    ];
    await store.table.update({ key: tableKeys.agent(RUN, agent), set, when: [] });
  }
  // Step 2 took 1,000 s; step 1 took longer, as the run was halted.
  for (const [closed, scoredAt] of [NOW - 90_000_000, NOW - 2_000_000, NOW - 1_000_000].entries()) {
    const expiresAt = expiryOf(scoredAt);
    const record = { ...groups[0], step: closed, group: 0, expiresAt };
    await store.table.delete(tableKeys.group(RUN, closed, 0));
    await store.table.insert(tableKeys.group(RUN, closed, 0), { ...record });
  }
  const stallAfter = async (seconds: number) => {
    const listed = { progress: progressOf(ready, [], training), progressAt: NOW - seconds * 1000 };
    await store.table.update({
      key: tableKeys.listed(RUN),
      set: Object.entries(listed).map(([key, value]) => [[key], value] as const),
      when: [],
    });
    return (await readLive(store, config, null)).stall;
  };
  expect(await stallAfter(2999)).toBeNull();
  expect(await stallAfter(3001)).toMatch(/^nothing has changed in step 3 since .* for 3001 s: main-1 trains 'main'/);
});

test("a run that is over waits for nothing; the summary of a step that nobody followed has no cost", async () => {
  const store = await storeOfFinishedRun();
  const over = { heartbeatSeconds: null, stall: null, wait: null };
  expect(await readLive(store, config, null)).toEqual({ usd: 0, ...over });
  const options = { from: 0, pollSeconds: 0.001, signal: new AbortController().signal };
  const haveCost: boolean[] = [];
  for await (const event of followRun(store, config, options)) {
    if (event.kind === "step") haveCost.push("usd" in event.summary);
  }
  expect(haveCost).toEqual([false]);
});
