/** @file Which workers are dead, on a clock and with reads that the test controls. */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import type { TableItem } from "../../core/ports.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { openRun } from "../fixtures/relay/world.ts";

const log = createLog(() => {});

/** An observer with a lease of 10 seconds, which reads at the time `time.now`. */
async function observing() {
  const { config, store } = await openRun(log, { liveness: { heartbeatSeconds: 1, leaseSeconds: 10 } });
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const time = { now: 0 };
  const reads: { readonly answer: () => void; readonly answered: Promise<TableItem[]> }[] = [];
  const query: typeof store.table.query = async (...given) => {
    const items = await store.table.query(...given);
    let answer = () => {};
    const answered = new Promise<TableItem[]>((resolve) => {
      answer = () => resolve(items);
    });
    reads.push({ answer, answered });
    return answered;
  };
  const clock = { ...store.clock, monotonic: () => time.now };
  const table = { ...store.table, query };
  const observer = openWorkerObserver({ ...run, store: { ...store, clock, table } });
  /** Begins a read, which finds the records as they are now. The function returned ends the read. */
  const beginRead = async () => {
    const begun = reads.length;
    const refreshed = observer.refresh(true);
    await expect.poll(() => reads.length, { timeout: 60_000 }).toBeGreaterThan(begun);
    return async () => {
      reads[begun]?.answer();
      await refreshed;
    };
  };
  const registerWorker = (worker: string) =>
    store.table.insert(tableKeys.worker(config.run, worker), {
      ...{ run: config.run, worker, agent: "main", roles: ["rollout"], url: "", state: "alive", counter: 1 },
      ...{ seenCounter: -1, seenAt: 0, release: run.release, inFlight: [] },
    });
  const readAt = async (now: number) => {
    time.now = now;
    await (await beginRead())();
  };
  return { observer, table, time, beginRead, readAt, registerWorker };
}

test("a worker is dead once its counter has not moved for the length of the lease", async () => {
  const { observer, readAt, registerWorker } = await observing();
  await registerWorker("silent");
  for (const now of [0, 4, 8, 9.9]) {
    await readAt(now);
    expect(observer.isDead("silent")).toBe(false);
  }
  await readAt(10);
  expect(observer.isDead("silent")).toBe(true);
});

test("of the time between two answers of the store, at most half a lease counts as a worker's silence", async () => {
  const { observer, time, beginRead, readAt, registerWorker } = await observing();
  await registerWorker("peer");
  await readAt(0);
  time.now = 1;
  const endRead = await beginRead();
  time.now = 16;
  await endRead();
  expect(observer.isDead("peer")).toBe(false);
  // 5 of those 16 seconds count, so the lease ends 5 seconds after the answer.
  await readAt(20.9);
  expect(observer.isDead("peer")).toBe(false);
  await readAt(21);
  expect(observer.isDead("peer")).toBe(true);
});

test("a late answer does not replace a newer one: a worker that has just registered stays alive", async () => {
  const { observer, beginRead, registerWorker } = await observing();
  const endFirst = await beginRead();
  await registerWorker("new");
  expect(observer.isDead("new")).toBe(false);
  const endSecond = await beginRead();
  await endSecond();
  expect(observer.isDead("new")).toBe(false);
  await endFirst();
  expect(observer.isDead("new")).toBe(false);
  expect(observer.workers()).toHaveLength(1);
});

test("a read that took long to mark a worker dead does not replace a newer one", async () => {
  const { observer, table, time, beginRead, readAt, registerWorker } = await observing();
  await registerWorker("silent");
  for (const now of [0, 4, 8]) await readAt(now);
  time.now = 12;
  const { update } = table;
  let mark = () => {};
  const marking = new Promise<void>((begun) => {
    table.update = async (change) => {
      table.update = update;
      begun();
      await new Promise<void>((resolve) => {
        mark = resolve;
      });
      return update(change);
    };
  });
  const endFirst = await beginRead();
  const firstEnds = endFirst();
  await marking;
  await registerWorker("new");
  await (await beginRead())();
  mark();
  await firstEnds;
  expect(observer.workers().map(({ worker, state }) => `${worker} ${state}`)).toEqual(["new alive", "silent dead"]);
});
