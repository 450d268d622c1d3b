/** @file Ticks: a run has one at a time, and concurrent calls share the next one; what a tick reads, repairs, reports and plans. */
import { describe, expect, test } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { JobRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import { heartbeat, raiseBudget, resumeRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { Ticker } from "../../functions/ticking.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { bytes, playRollout, prepare, publish, questions, rewards, sha, teamConfig } from "../fakes/scripted-team.ts";

async function started() {
  const store = memoryStore();
  const context = openContext(store, { rewardsOf: async () => rewards });
  await openFunctions(context).startRun(await prepare(store.objects, teamConfig()));
  const ticker = new Ticker(context);
  const reads = { run: 0 };
  const { get } = store.table;
  store.table.get = async (key) => {
    if (key.sk === tableKeys.run("test").sk) reads.run++;
    return get(key);
  };
  /** The prefixes of all queries. */
  const queries: string[] = [];
  const { query } = store.table;
  store.table.query = async (pk, prefix) => {
    queries.push(prefix);
    return query(pk, prefix);
  };
  return { store, reads, queries, tick: (run: string, thorough: boolean) => ticker.tick(run, thorough) };
}

test("twenty concurrent calls make two ticks: the running one and the next", async () => {
  const { reads, tick } = await started();
  await Promise.all(Array.from({ length: 20 }, () => tick("test", false)));
  // A tick that finds nothing to do reads RUN once.
  expect(reads.run).toBe(2);
  await tick("test", false);
  expect(reads.run).toBe(3);
});

test("a tick with nothing to do reads RUN, STEP and the first open group", async () => {
  const { store, tick } = await started();
  const keys: string[] = [];
  const { get } = store.table;
  store.table.get = (key) => {
    keys.push(key.sk);
    return get(key);
  };
  await tick("test", false);
  expect(keys).toEqual(["RUN", "STEP#000000", "GROUP"]);
});

test("a scheduled tick queries the workers, jobs and agents of its run once", async () => {
  const { queries, tick } = await started();
  await tick("test", true);
  expect(queries.sort()).toEqual([tablePrefixes.agents, tablePrefixes.jobs, tablePrefixes.workers]);
});

test("if the next tick is already requested when a scheduled one arrives, that next tick repairs the run too", async () => {
  const { queries, tick } = await started();
  await Promise.all([false, false, true, false].map((thorough) => tick("test", thorough)));
  expect(queries.filter((prefix) => prefix === tablePrefixes.workers)).toHaveLength(1);
});

test("a failed tick fails its callers, not later ones", async () => {
  const { store, tick } = await started();
  const { get } = store.table;
  store.table.get = () => Promise.reject(new Error("outage"));
  const first = tick("test", false);
  const next = tick("test", false);
  await expect(first).rejects.toThrow("outage");
  store.table.get = get;
  await next.catch(() => {});
  await expect(tick("test", false)).resolves.toBeUndefined();
});

test("a scheduled tick advances runs concurrently: one whose reads hang does not delay the others", async () => {
  const store = memoryStore();
  const context = openContext(store, { rewardsOf: async () => rewards });
  const functions = openFunctions(context);
  for (const run of ["a", "b"]) await functions.startRun(await prepare(store.objects, teamConfig({ run })));
  const { get } = store.table;
  let free = () => {};
  const freed = new Promise<void>((resolve) => {
    free = resolve;
  });
  const read: string[] = [];
  store.table.get = async (key) => {
    if (key.pk === tableKeys.run("a").pk) await freed;
    read.push(key.pk);
    return get(key);
  };
  const ticked = functions.tickAll();
  await expect.poll(() => read).toContain(tableKeys.run("b").pk);
  expect(read).not.toContain(tableKeys.run("a").pk);
  free();
  await ticked;
});

test("the budget comes first: a run whose repair fails is still halted once its budget is spent", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const config = teamConfig({ budget: { usd: 0.5, usdPerWorkerHour: { "*": 0 } } });
  await functions.startRun(await prepare(store.objects, config));
  const spent = { run: "test", verdicts: 1, microUsd: 500_000, reserved: {} };
  await store.table.insert(tableKeys.judgeSpending("test", 0), spent);
  const { query } = store.table;
  store.table.query = (pk, prefix) =>
    prefix === tablePrefixes.jobs ? Promise.reject(new Error("damaged")) : query(pk, prefix);
  await expect(functions.tick({ run: "test" })).rejects.toThrow("damaged");
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "halted" });
});

test("a limit that is raised while a tick finds the budget spent keeps the run going", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const config = teamConfig({ budget: { usd: 0.5, usdPerWorkerHour: { "*": 0 } } });
  await functions.startRun(await prepare(store.objects, config));
  await store.table.insert(tableKeys.judgeSpending("test", 0), {
    run: "test",
    verdicts: 1,
    microUsd: 500_000,
    reserved: {},
  });
  const { get, query, update } = store.table;
  const run = async () => RunRecord.parse(await get(tableKeys.run("test")));
  store.table.query = async (pk, prefix) => {
    const isSpending = prefix === tablePrefixes.judgeSpending;
    if (isSpending) await update(raiseBudget(await run(), { maxHours: null, maxUsd: 5 }));
    return query(pk, prefix);
  };
  await functions.tick({ run: "test" });
  expect(await run()).toMatchObject({ status: "running", reason: "", maxUsd: 5 });
  expect(await get(tableKeys.listed("test"))).not.toMatchObject({ progress: "halted" });
});

test("a scheduled tick halts a run that has lost an agent's trainer three times; the resumed run continues", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await functions.startRun(await prepare(store.objects, teamConfig()));
  const run = () => store.table.get(tableKeys.run("test"));
  await store.table.update({ key: tableKeys.agent("test", "searcher"), set: [[["takeovers"], 3]], when: [] });
  await functions.tickAll();
  expect(await run()).toMatchObject({ status: "halted", haltCode: "trainer-lost" });
  await store.table.update(resumeRun("test"));
  await functions.tickAll();
  expect(await run()).toMatchObject({ status: "running" });
});

test("a heartbeat that arrives just before a tick marks its worker dead keeps it alive, and no crash counts against its rollout", async () => {
  const store = memoryStore();
  let time = 0;
  store.clock.storeTime = async () => time;
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await functions.startRun(await prepare(store.objects, teamConfig()));
  const key = tableKeys.worker("test", "w1");
  await store.table.insert(key, {
    ...{ run: "test", worker: "w1", agent: "main", roles: ["rollout"], url: "", state: "alive", release: "1" },
    ...{ counter: 1, seenCounter: 1, seenAt: 0, inFlight: ["0/0/1"] },
  });
  const { update } = store.table;
  let refused = 0;
  store.table.update = async (change) => {
    const isMark = change.set?.some(([, value]) => value === "dead");
    if (isMark) await update(heartbeat("test", "w1", "alive"));
    const result = await update(change);
    if (isMark && !result.applied) refused++;
    return result;
  };
  // The first tick suspects the worker, the second tries to mark it dead, the third sees the heartbeat.
  for (let tick = 0; tick < 3; tick++) {
    time += 10_001;
    await functions.tickAll();
  }
  expect(refused).toBe(1);
  expect(await store.table.get(key)).toMatchObject({ state: "alive", counter: 2 });
  expect(await store.table.get(tableKeys.group("test", 0, 0))).toMatchObject({ crashes: {} });
});

test("a listed run whose start was interrupted before RUN was written is not a failure, and no other run waits for it", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await store.table.insert(tableKeys.listed("interrupted"), { run: "interrupted" });
  await functions.startRun(await prepare(store.objects, teamConfig()));
  await functions.tickAll();
  expect(await functions.reconcile()).toMatchObject({ failures: [], metrics: { runs: [{ run: "test" }] } });
});

test("a damaged evaluation result is reported; its run is still repaired and advanced, and another result is recorded", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const config = teamConfig();
  await functions.startRun(await prepare(store.objects, config));
  const readJobs = async () =>
    (await store.table.query(tableKeys.run("test").pk, tablePrefixes.jobs)).map((item) => JobRecord.parse(item));
  const [damaged = expect.fail(), whole = expect.fail()] = await readJobs();
  const { job, team, suite } = whole;
  const score = { n: 4, correct: 3, runs: [{ n: 4, correct: 3 }], interval: { low: 0.3, high: 0.95 } };
  const result = { run: "test", job, team, suite, ...score, lost: [], questions: [], seconds: 1 };
  await store.objects.commit(objectKeys.evaluation("test", damaged.job), bytes({ nonsense: true }));
  await store.objects.commit(objectKeys.evaluation("test", job), bytes(result));
  // No event arrives: the outcomes are scored, and the step is advanced, by the two ticks below alone.
  const readStep = async () => StepRecord.parse(await store.table.get(tableKeys.step("test", 0)));
  const step = await readStep();
  for (const g of step.groups.keys())
    for (let k = 0; k < config.rolloutsPerQuestion; k++) await playRollout(store.objects, config, step, g, k);
  for (const _ of [1, 2]) {
    await expect(functions.tick({ run: "test" })).rejects.toMatchObject({ code: "record-damaged" });
    await functions.idle();
  }
  expect(await readStep()).toMatchObject({ state: "ready" });
  expect((await readJobs()).map(({ state }) => state)).toEqual(["queued", "done"]);
  // A failed repair is reported rather than the damaged result, which fails again in the next tick.
  const { query } = store.table;
  store.table.query = async (pk, prefix) => {
    if (prefix === tablePrefixes.workers) throw new MgrpoError("store-unreachable", "no answer");
    return query(pk, prefix);
  };
  await expect(functions.tick({ run: "test" })).rejects.toMatchObject({ code: "store-unreachable" });
});

test.each([
  [objectKeys.config("test"), teamConfig({ seed: 2 })],
  [objectKeys.questions("test"), { train: questions.slice(1), heldOut: [] }],
])("a run does not continue with a %s other than the one that it was started with", async (key, replacement) => {
  const store = memoryStore();
  const process = () => openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await process().startRun(await prepare(store.objects, teamConfig()));
  await store.objects.delete([key]);
  await store.objects.commit(key, bytes(replacement));
  await expect(process().tick({ run: "test" })).rejects.toMatchObject({
    code: "record-damaged",
    message: `${key} is not the one that run 'test' was started with: restore it`,
  });
});

test("weights that a later version still names, since its step trained nothing, are deleted with that version, not before", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const sizes = { steps: 5, questionsPerStep: 1, rolloutsPerQuestion: 2 };
  const config = teamConfig({ ...sizes, evaluation: { suites: [] } });
  await functions.startRun(await prepare(store.objects, config));
  const kept: boolean[] = [];
  for (let n = 0; n < config.steps; n++) {
    const step = StepRecord.parse(await store.table.get(tableKeys.step("test", n)));
    for (const k of [0, 1]) await functions.scoreRollout({ key: await playRollout(store.objects, config, step, 0, k) });
    // Version 2 has the weights of version 1.
    for (const agent of step.trained)
      await functions.manifestCreated({ key: await publish(store.objects, config, agent, n + 1, n !== 1) });
    kept.push((await store.objects.head(objectKeys.part("test", sha("weights of main 1")))) !== undefined);
  }
  expect(kept).toEqual([true, true, true, true, false]);
});

test("a thorough tick of an unknown run is refused", async () => {
  const { tick } = await started();
  await expect(tick("other", true)).rejects.toThrow("no run 'other' in this store");
});

describe("the plan of a step", () => {
  /** A store that counts insertions of groups, and fails those after the first `allowed`. */
  async function planning(allowed = Number.POSITIVE_INFINITY) {
    const store = memoryStore();
    const request = await prepare(store.objects, teamConfig());
    const groups = { inserted: 0, allowed };
    const { insert } = store.table;
    store.table.insert = async (key, item) => {
      if (key.sk === "GROUP" && ++groups.inserted > groups.allowed) throw new Error("killed");
      return insert(key, item);
    };
    const process = () => openFunctions(openContext(store, { rewardsOf: async () => rewards }));
    const planned = async (g: number) => (await store.table.get(tableKeys.group("test", 0, g))) !== undefined;
    return { request, groups, process, planned };
  }

  test("is inserted once, even if several processes start the run at the same time", async () => {
    const { request, groups, process, planned } = await planning();
    await Promise.all([1, 2, 3].map(() => process().startRun(request)));
    expect(groups.inserted).toBe(request.config.questionsPerStep);
    expect(await planned(request.config.questionsPerStep - 1)).toBe(true);
  });

  test.each([0, 1])("is completed by the next tick after a process died with %i groups inserted", async (allowed) => {
    const { request, groups, process, planned } = await planning(allowed);
    await expect(process().startRun(request)).rejects.toThrow("killed");
    groups.allowed = Number.POSITIVE_INFINITY;
    await process().tick({ run: "test" });
    for (let g = 0; g < request.config.questionsPerStep; g++) expect(await planned(g), `group ${g}`).toBe(true);
  });
});
