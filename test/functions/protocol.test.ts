/** @file The functions over whole steps on the in-memory store: starts and their refusals, losses, crashes, deleted weights, and what ticks repair. */
import { expect, test } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, JobRecord, RunRecord, StepRecord, type WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import { wilson } from "../../core/training/confidence-interval.ts";
import { leaseJob } from "../../core/training/job-writes.ts";
import { resumeRun } from "../../core/training/writes.ts";
import { type FunctionOptions, openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { repeatingTable } from "../fakes/repeating-table.ts";
import { bytes, playRollout, prepare, publish, rewards, teamConfig } from "../fakes/scripted-team.ts";

async function started(config: RunConfig, options: Partial<FunctionOptions> = {}) {
  const store = memoryStore();
  let time = 0;
  store.clock.storeTime = async () => time;
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards, ...options }));
  const request = await prepare(store.objects, config);
  await functions.startRun(request);
  const run = async () => RunRecord.parse(await store.table.get(tableKeys.run(config.run)));
  const step = async (n: number) => StepRecord.parse(await store.table.get(tableKeys.step(config.run, n)));
  const group = async (n: number, g: number) =>
    GroupRecord.parse(await store.table.get(tableKeys.group(config.run, n, g)));
  const play = async (n: number, skip: string[] = []) => {
    const plan = await step(n);
    for (const g of plan.groups.keys()) {
      for (let k = 0; k < config.rolloutsPerQuestion; k++) {
        if (skip.includes(`${g}/${k}`)) continue;
        await functions.scoreRollout({ key: await playRollout(store.objects, config, plan, g, k) });
      }
    }
  };
  const train = async (n: number, by = functions) => {
    for (const agent of (await step(n)).trained) {
      await by.manifestCreated({ key: await publish(store.objects, config, agent, n + 1) });
    }
  };
  const later = (ms: number) => {
    time += ms;
  };
  return { store, functions, request, run, step, group, play, train, later };
}

test("a second start changes nothing; one that differs from the first is refused, and the message says how", async () => {
  const { functions, request, store, run } = await started(teamConfig());
  const before = store.objects.keys();
  await functions.startRun(request);
  expect(store.objects.keys()).toEqual(before);
  expect(await run()).toMatchObject({ status: "running", step: 0 });
  const other = { ...request, config: teamConfig({ steps: 4, seed: 2 }) };
  await expect(functions.startRun(other)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringMatching(
      /run 'test' cannot start: (seed: 1 \(stored\), 2 \(requested\); steps: 3 \(stored\), 4 \(requested\)|steps: 3 \(stored\), 4 \(requested\); seed: 1 \(stored\), 2 \(requested\))/,
    ),
  });
  await expect(functions.startRun({ ...request, questionsSha256: "0".repeat(64) })).rejects.toThrow(
    "questions.json: the store has a different one. Use another run name, or the config, questions and base models of the first start",
  );
  await expect(functions.startRun({ ...request, bases: {} })).rejects.toThrow(
    "bases.main: this agent has no base files. Upload what is missing, then start again",
  );
});

test("a start whose questions are not in the store is refused, and the message says to upload them", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const request = await prepare(memoryStore().objects, teamConfig());
  await expect(functions.startRun(request)).rejects.toMatchObject({
    code: "config-invalid",
    message: "run 'test' cannot start: questions.json is not in the store. Upload what is missing, then start again",
  });
});

test("a start that finds a damaged config in the store fails, and the message names its key", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const request = await prepare(store.objects, teamConfig());
  await store.objects.commit("runs/test/config.json", new TextEncoder().encode("{half a con"));
  await expect(functions.startRun(request)).rejects.toMatchObject({
    code: "record-damaged",
    message: "runs/test/config.json, which exists already: not JSON",
  });
});

test("a start whose base files are not in the store is refused and writes no RUN", async () => {
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  const request = await prepare(store.objects, teamConfig());
  const bases = { ...request.bases, main: { "model.safetensors": { sha256: "1".repeat(64), bytes: 3 } } };
  await expect(functions.startRun({ ...request, bases })).rejects.toThrow(
    /bases\.main: model\.safetensors \(1{64}\) is not in the store/,
  );
  expect(await store.table.get(tableKeys.run("test"))).toBeUndefined();
});

test("main-only: a step does not wait for the frozen agent, whose version is still 0 in the next team", async () => {
  const config = teamConfig({
    steps: 1,
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s", trained: false } },
  });
  const { run, step, play, train, store } = await started(config);
  await play(0);
  expect(await step(0)).toMatchObject({ state: "ready", trained: ["main"] });
  await train(0);
  expect(await run()).toMatchObject({ status: "finished" });
  const team = JSON.parse(new TextDecoder().decode(await store.objects.get(objectKeys.team("test", 1))));
  expect(team.agents).toMatchObject({ main: { version: 1 }, searcher: { version: 0 } });
});

test("a rollout that crashes its worker three times while it runs alone is lost; the group continues without it, and more losses than limits.lostFraction halt the run", async () => {
  const { functions, store, later, play, group, run, step, train } = await started(
    teamConfig({ limits: { lostFraction: 0 } }),
  );
  for (let life = 1; life <= 3; life++) {
    const record: WorkerRecord = {
      ...{ run: "test", worker: `w${life}`, agent: "main", roles: ["rollout"], url: "", state: "alive", release: "1" },
      ...{ counter: 1, seenCounter: -1, seenAt: 0, inFlight: ["0/0/1"] },
    };
    await store.table.insert(tableKeys.worker("test", `w${life}`), record);
    for (let tick = 0; tick < 4; tick++) {
      later(10_001);
      await functions.tickAll();
    }
    expect(await store.table.get(tableKeys.worker("test", `w${life}`))).toMatchObject({ state: "dead" });
  }
  await functions.idle();
  const reason = "infrastructure: its worker crashed 3 times while it ran alone";
  expect((await group(0, 0)).rollouts).toEqual({ "1": { excluded: reason } });
  await play(0, ["0/1"]);
  expect((await group(0, 0)).finalized["main"]?.trajectories).toEqual([0, 2]);
  expect(await run()).toMatchObject({
    status: "halted",
    reason: expect.stringContaining(`the last: 0/0/1: ${reason}`),
  });
  expect(await step(0)).toMatchObject({ state: "ready" });
  await store.table.update(resumeRun("test"));
  await train(0);
  expect(await run()).toMatchObject({ status: "running", step: 1 });
});

test("the last group's finalization is followed by a tick even if the response to its write is lost", async () => {
  const { store, play, step } = await started(teamConfig());
  store.table.update = repeatingTable({ ...store.table }).update;
  await play(0);
  expect(await step(0)).toMatchObject({ state: "ready" });
});

test("a scorer that dies between the finalization and the tick runs the tick when it is called again", async () => {
  const config = teamConfig();
  const { functions, store, play, step } = await started(config);
  await play(0, ["2/2"]);
  const key = await playRollout(store.objects, config, await step(0), 2, 2);
  const { update } = store.table;
  store.table.update = async (change) => {
    if (change.key.sk !== "GROUP") throw new MgrpoError("store-unreachable", "the scorer dies", { retryable: true });
    return update(change);
  };
  await expect(functions.scoreRollout({ key })).rejects.toThrow("the scorer dies");
  store.table.update = update;
  expect(await step(0)).toMatchObject({ state: "open" });
  await functions.scoreRollout({ key });
  expect(await step(0)).toMatchObject({ state: "ready" });
});

test("a group with fewer than two remaining rollouts is skipped for every agent", async () => {
  const { functions, store, play, group, step } = await started(teamConfig({ limits: { lostFraction: 1 } }));
  const questionId = (await step(0)).groups[0];
  for (const rollout of [0, 1]) {
    const address = { run: "test", phase: "train", step: 0, group: 0, rollout };
    await store.objects.commit(
      objectKeys.outcome(address),
      bytes({ status: "failed", address, questionId, reason: "disk" }),
    );
    await functions.scoreRollout({ key: objectKeys.outcome(address) });
  }
  await play(0);
  expect(await group(0, 0)).toMatchObject({ state: "finalized", finalized: {} });
  expect(await step(0)).toMatchObject({ state: "ready" });
});

test("weights that no kept version references are deleted while the next step trains", async () => {
  const config = teamConfig({ steps: 5, questionsPerStep: 1, rolloutsPerQuestion: 2, evaluation: { suites: [] } });
  const { play, train, store } = await started(config);
  const parts = () => store.objects.keys().filter((key) => key.includes("/parts/")).length;
  const counts: number[] = [];
  for (let n = 0; n < 5; n++) {
    await play(n);
    await train(n);
    counts.push(parts());
  }
  // Two agents. Kept: version 0, the last two, and an expired one until the next step trains; at the end that is deleted too.
  expect(counts).toEqual([4, 6, 8, 8, 6]);
});

test("curriculum stages given as shares follow the tokens that steps recorded, even after a restart", async () => {
  const curriculum = [
    { from: 0, levels: [1] },
    { from: 0.5, levels: [2] },
  ];
  const config = teamConfig({ steps: 50, sampledTokens: 40, questionsPerStep: 2, curriculum });
  const { store, play, train, step } = await started(config);
  let sampled = 0;
  for (let n = 0; sampled < 40; n++) {
    const plan = await step(n);
    expect(plan.sampledBefore).toBe(sampled);
    expect(plan.groups.map((id) => 1 + (Number(id.slice(1)) % 2))).toEqual(
      plan.groups.map(() => (sampled >= 20 ? 2 : 1)),
    );
    await play(n);
    sampled += (await step(n)).sampledTokens;
    // Another process, which has only the store, closes the step and plans the next.
    await train(n, openFunctions(openContext(store, { rewardsOf: async () => rewards })));
  }
});

test("a long-lived process looks for missed outcomes only in groups that have stalled", async () => {
  const config = teamConfig();
  const { functions, store, step, group } = await started(config, { isLongLived: true });
  await playRollout(store.objects, config, await step(0), 0, 0);
  await functions.tickAll();
  expect((await group(0, 0)).rollouts).toEqual({});
  await functions.tickAll();
  await functions.idle();
  expect(Object.keys((await group(0, 0)).rollouts)).toEqual(["0"]);
});

test("a long-lived process finds missed outcomes in every open step, although their groups have the same indices", async () => {
  const config = teamConfig({ staleness: 1, algorithm: { tisCap: 2 } });
  const { functions, store, step, group } = await started(config, { isLongLived: true });
  for (const n of [0, 1]) await playRollout(store.objects, config, await step(n), 0, 0);
  for (const _ of [1, 2]) await functions.tickAll();
  await functions.idle();
  for (const n of [0, 1]) expect(Object.keys((await group(n, 0)).rollouts)).toEqual(["0"]);
});

test("an evaluation is recorded once, by its event or by a scheduled tick, even if a worker leases its job at that moment", async () => {
  const { functions, store } = await started(teamConfig());
  const [item] = await store.table.query(tableKeys.run("test").pk, "JOB#");
  const job = JobRecord.parse(item);
  const { update } = store.table;
  const applied: boolean[] = [];
  store.table.update = async (change) => {
    const isJob = change.key.sk.startsWith("JOB#");
    if (isJob && applied.length === 0) await update(leaseJob(job, "w1"));
    const result = await update(change);
    if (isJob) applied.push(result.applied);
    return result;
  };
  const result = {
    ...{ run: "test", job: job.job, team: 0, suite: "all", n: 10, correct: 4 },
    ...{ runs: [{ n: 10, correct: 4 }], interval: wilson({ n: 10, correct: 4 }) },
    ...{ lost: [], questions: [], seconds: 1 },
  };
  const key = objectKeys.evaluation("test", result.job);
  await store.objects.commit(key, bytes(result));
  await functions.tickAll();
  await functions.recordEvaluation({ key });
  expect(await store.table.get(tableKeys.job("test", result.job))).toMatchObject({
    ...{ state: "done", n: 10, correct: 4, runs: result.runs, interval: result.interval },
  });
  expect(applied).toEqual([false, true]);
});

test("a judge's outage does not hold up other rollouts: a scheduled tick scores the rest, and the next one asks again", async () => {
  let asked = 0;
  let endFirstTick = () => {};
  const firstTick = new Promise<void>((resolve) => (endFirstTick = resolve));
  const judge: Rewards = {
    ...rewards,
    async correct(question, conversation) {
      if (question.id !== failing) return rewards.correct(question, conversation);
      asked++;
      await firstTick;
      throw new Error("503");
    },
  };
  let failing = "";
  const { functions, store, step, group } = await started(teamConfig(), { rewardsOf: async () => judge });
  failing = (await step(0)).groups[0] ?? "";
  for (const g of [0, 1]) await playRollout(store.objects, teamConfig(), await step(0), g, 0);
  const scoresOf = async (g: number) => Object.keys((await group(0, g)).rollouts).length;
  await functions.tickAll();
  endFirstTick();
  await functions.idle();
  expect([await scoresOf(0), await scoresOf(1)]).toEqual([0, 1]);
  // The next scheduled tick rejects with the failure, so that it is logged.
  await expect(functions.tickAll()).rejects.toThrow("503");
  await functions.idle();
  expect([asked, await scoresOf(0)]).toEqual([2, 0]);
});
