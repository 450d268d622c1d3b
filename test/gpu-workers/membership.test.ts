/** @file Who may join a run, what heartbeats report, and how often a worker sends them. */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { register } from "../../gpu-workers/liveness/membership.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { openRun } from "../fixtures/relay/world.ts";

const log = createLog(() => {});

test("of two workers with different releases that register at once, one is refused", async () => {
  const liveness = { heartbeatSeconds: 0.1, leaseSeconds: 0.8, pollSeconds: 0.02 };
  const { config, store } = await openRun(log, { liveness });
  let inserts = 0;
  let bothLooked = () => {};
  const looked = new Promise<void>((resolve) => {
    bothLooked = resolve;
  });
  // Neither inserts its record before both have looked.
  const insert: typeof store.table.insert = async (...given) => {
    inserts += 1;
    if (inserts === 2) bothLooked();
    await looked;
    return store.table.insert(...given);
  };
  const stop = new AbortController();
  const join = async (release: string) => {
    const read = await readRunContext(config.run, release, store, log);
    const run = { ...read, store: { ...store, table: { ...store.table, insert } } };
    const registration = { agent: "main", roles: ["train"], url: "" } as const;
    const membership = await register(run, registration, openWorkerObserver(run), stop.signal);
    void membership.beat(stop.signal);
  };
  const ends = await Promise.allSettled([join("1.0.0"), join("2.0.0")]);
  stop.abort();
  expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(ends.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "config-invalid" } });
});

test("heartbeats report how many rollouts run and how many wait to run alone", async () => {
  const { config, store } = await openRun(log, { liveness: { heartbeatSeconds: 0.02, leaseSeconds: 60 } });
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const stop = new AbortController();
  const registration = { agent: "main", roles: ["rollout"], url: "" } as const;
  const membership = await register(run, registration, openWorkerObserver(run), stop.signal);
  const beating = membership.beat(stop.signal);
  const record = () => store.table.get(tableKeys.worker(config.run, membership.id));
  for (const quarantined of [2, 0]) {
    membership.setRolloutCounter(() => ({ running: 1, quarantined }));
    await expect.poll(record, { timeout: 60_000 }).toMatchObject({ running: 1, quarantined });
  }
  stop.abort();
  expect(await beating).toBe("stopped");
});

test("a heartbeat whose write takes less than heartbeatSeconds does not delay the next one: the run's budget counts heartbeats as time", async () => {
  const { config, store } = await openRun(log, { liveness: { heartbeatSeconds: 1 } });
  let now = 0;
  const stop = new AbortController();
  const clock: typeof store.clock = {
    ...store.clock,
    monotonic: () => now,
    async sleep(seconds) {
      now += seconds;
      if (now > 3600) stop.abort();
    },
  };
  const read = await readRunContext(config.run, "1.0.0", store, log);
  const update: typeof store.table.update = async (change) => {
    now += 0.25;
    return store.table.update(change);
  };
  const run = { ...read, store: { ...store, clock, table: { ...store.table, update } } };
  const registration = { agent: "main", roles: ["train"], url: "" } as const;
  const membership = await register(run, registration, openWorkerObserver(run), stop.signal);
  expect(await membership.beat(stop.signal)).toBe("stopped");
  const record = await store.table.get(tableKeys.worker(config.run, membership.id));
  expect(record?.["counter"]).toBe(3600);
});
