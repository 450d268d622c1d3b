/** @file Runs that are over leave the list of runs: old runs cost no requests, a resumed run is listed again, and none is lost in between. */
import { expect, test } from "vitest";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord, StepRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { CONVERSATION_DAYS } from "../../core/training/retention.ts";
import { allRuns, listedRuns } from "../../core/training/run-list.ts";
import { endRun, resumeRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { playRollout, prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

const MINUTE = 60_000;
const config = (run: string) => teamConfig({ run, evaluation: { suites: [] } });

/**
 * A store with these runs. `minutes` moves the clock, with one tick a minute, then reconciles. `requests`: how many gets,
 * queries and updates of the table the last tick and the reconciliation made.
 */
async function started(...runs: string[]) {
  const store = memoryStore();
  let [time, requests] = [MINUTE, 0];
  store.clock.storeTime = async () => time;
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  for (const run of runs) await functions.startRun(await prepare(store.objects, config(run)));
  const { get, query, update } = store.table;
  const counted =
    <A extends unknown[], R>(call: (...args: A) => R) =>
    (...args: A) => {
      requests += 1;
      return call(...args);
    };
  Object.assign(store.table, { get: counted(get), query: counted(query), update: counted(update) });
  const minutes = async (count: number) => {
    for (let i = 0; i < count; i++) {
      time += MINUTE;
      requests = 0;
      await functions.tickAll();
    }
    const { metrics } = await functions.reconcile();
    return { requests, metrics };
  };
  const record = async (run: string) => RunRecord.parse(await store.table.get(tableKeys.run(run)));
  const resume = async (run: string) => resumeInStore(store, config(run), await record(run), {});
  const listed = async () => (await listedRuns(store.table)).map(({ run }) => run);
  return { store, functions, minutes, record, resume, listed };
}

const worker = (run: string): WorkerRecord => ({
  ...{ run, worker: "w1", agent: "main", roles: ["rollout"], url: "", state: "dead", release: "1" },
  ...{ counter: 9, seenCounter: 9, seenAt: 0, inFlight: [] },
});

test("a run that is over is archived after an hour: it costs no requests and is still among all runs; a finished run's worker records expire", async () => {
  const { store, minutes, listed } = await started("old", "stopped", "new");
  const key = tableKeys.worker("old", "w1");
  await store.table.insert(key, worker("old"));
  const before = (await minutes(1)).requests;
  await store.table.update(endRun("old", "finished"));
  await store.table.update(endRun("stopped", { code: "user", reason: "a reason" }));
  await minutes(60);
  expect(await listed()).toEqual(["new", "old", "stopped"]);
  await minutes(2);
  expect(await listed()).toEqual(["new"]);
  expect(await allRuns(store.table)).toEqual(["new", "old", "stopped"]);
  // One run's share, a third, plus the query of the list by the tick and by the reconciliation.
  expect((await minutes(1)).requests).toBeLessThanOrEqual(before / 3 + 2);
  const { expiresAt = 0 } = WorkerRecord.parse(await store.table.get(key));
  expect(expiresAt).toBeGreaterThan(CONVERSATION_DAYS * 86_400);
});

test("a halted run's worker records do not expire, because its budget counts their hours; a live worker keeps its run listed", async () => {
  const { store, minutes, listed } = await started("halted", "draining");
  await store.table.insert(tableKeys.worker("halted", "w1"), worker("halted"));
  await store.table.insert(tableKeys.worker("draining", "w1"), { ...worker("draining"), state: "draining" });
  for (const run of ["halted", "draining"]) await store.table.update(endRun(run, { code: "user", reason: "a reason" }));
  for (let minute = 0; minute < 65; minute++) {
    await store.table.update({ key: tableKeys.worker("draining", "w1"), add: [[["counter"], 1]], when: [] });
    await minutes(1);
  }
  expect(await listed()).toEqual(["draining"]);
  expect(await store.table.get(tableKeys.worker("halted", "w1"))).not.toHaveProperty("expiresAt");
});

test("damaged records do not keep a run that is over among those that are ticked; they keep one that is not", async () => {
  const { store, functions, listed } = await started("finished", "halted", "running");
  for (const run of await listed()) await store.table.insert(tableKeys.worker(run, "w1"), { of: "another release" });
  await store.table.update(endRun("finished", "finished"));
  await store.table.update(endRun("halted", { code: "user", reason: "a reason" }));
  const failures: unknown[] = [];
  for (const minutes of [2, 64]) {
    store.clock.storeTime = async () => minutes * MINUTE;
    await functions.tickAll((error) => failures.push(error));
  }
  expect(failures).toHaveLength(6);
  expect(failures[0]).toMatchObject({ code: "record-damaged" });
  expect(await listed()).toEqual(["running"]);
});

test("a damaged RUN record does not keep a run that is over among those that are ticked", async () => {
  const { store, functions, listed } = await started("halted", "running");
  await store.table.update(endRun("halted", { code: "user", reason: "a reason" }));
  for (const run of await listed())
    await store.table.update({ key: tableKeys.run(run), set: [[["of"], "another release"]], when: [] });
  const failures: unknown[] = [];
  for (const minutes of [2, 64]) {
    store.clock.storeTime = async () => minutes * MINUTE;
    await functions.tickAll((error) => failures.push(error));
  }
  expect(failures).toHaveLength(4);
  expect(failures[0]).toMatchObject({ code: "record-damaged" });
  expect(await listed()).toEqual(["running"]);
});

test("a damaged item of the list of runs fails the tick of its own run alone", async () => {
  const { store, functions } = await started("damaged", "sound");
  await store.table.update({ key: tableKeys.listed("damaged"), set: [[["progressAt"], "noon"]], when: [] });
  const failures: unknown[] = [];
  store.clock.storeTime = async () => 2 * MINUTE;
  await functions.tickAll((error) => failures.push(error));
  expect(failures).toMatchObject([{ code: "record-damaged" }]);
  expect(await store.table.get(tableKeys.listed("sound"))).toHaveProperty("progress");
  const { runs } = (await functions.reconcile()).metrics;
  expect(runs.map(({ run }) => run)).toEqual(["damaged", "sound"]);
});

test("an archived run is listed again once it is resumed", async () => {
  const { store, minutes, listed, resume, functions } = await started("a");
  await store.table.update(endRun("a", { code: "user", reason: "a reason" }));
  await minutes(65);
  expect(await listed()).toEqual([]);
  await resume("a");
  expect(await listed()).toEqual(["a"]);
  await expect(functions.tickAll()).resolves.toBeUndefined();
  expect(await store.table.get(tableKeys.listed("a"))).not.toHaveProperty("expiresAt");
});

test("a resume at any moment of the tick that archives its run leaves it listed", async () => {
  const MOMENTS = 20;
  let interruptions = 0;
  for (let moment = 0; moment < MOMENTS; moment++) {
    const { store, minutes, listed, resume, record } = await started("a");
    await store.table.update(endRun("a", { code: "user", reason: "a reason" }));
    await minutes(60);
    let calls = 0;
    const { get, query, update, insert } = store.table;
    /** The run is resumed before call number `moment` to the table. */
    const interrupted =
      <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
      async (...args: A) => {
        if (calls++ === moment) await resume("a");
        return call(...args);
      };
    Object.assign(store.table, {
      get: interrupted(get),
      query: interrupted(query),
      update: interrupted(update),
      insert: interrupted(insert),
    });
    await minutes(2);
    Object.assign(store.table, { get, query, update, insert });
    if (calls <= moment) {
      expect(await listed()).toEqual([]);
      continue;
    }
    interruptions += 1;
    expect([await listed(), (await record("a")).status]).toEqual([["a"], "running"]);
  }
  // Both branches ran: the moments cover every call.
  expect(interruptions).toBeGreaterThan(0);
  expect(interruptions).toBeLessThan(MOMENTS);
});

test("idleMinutes counts each run's own time without progress", async () => {
  const { store, functions, minutes } = await started("moving", "stuck");
  let last = {};
  for (let k = 0; k < 4; k++) {
    const step = StepRecord.parse(await store.table.get(tableKeys.step("moving", 0)));
    const key = await playRollout(store.objects, config("moving"), step, Math.floor(k / 3), k % 3);
    await functions.scoreRollout({ key });
    const { runs } = (await minutes(10)).metrics;
    last = Object.fromEntries(runs.map(({ run, idleMinutes }) => [run, idleMinutes]));
  }
  // 40 ticks; the first, one minute after the start, records where the runs stand. The last outcome is seen by the first of the last ten.
  expect(last).toEqual({ moving: 9, stuck: 39 });
});

test("a listed run that is resumed without writing the list, as an older release does, stays listed", async () => {
  const { store, minutes, listed } = await started("a");
  await store.table.update(endRun("a", { code: "user", reason: "a reason" }));
  await minutes(30);
  await store.table.update(resumeRun("a"));
  await minutes(60);
  expect(await listed()).toEqual(["a"]);
});
