/** @file score-rollout: eq 4 and 5 from committed objects; inconsistent rollouts are lost, never scored; judges are asked once, waited for, then given up. */
import { beforeEach, expect, test } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Judgement } from "../../core/contracts/judge.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import { GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Outcome } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import { resumeRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { checkedRewards } from "../../recipes/checked-rewards.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { bytes, playRollout, prepare, rewards, said, sha, teamConfig } from "../fakes/scripted-team.ts";

let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});

async function started(config: RunConfig, judge: Rewards = rewards) {
  const functions = openFunctions(openContext(store, { rewardsOf: async () => judge }));
  await functions.startRun(await prepare(store.objects, config));
  const step = StepRecord.parse(await store.table.get(tableKeys.step(config.run, 0)));
  const group = async () => GroupRecord.parse(await store.table.get(tableKeys.group(config.run, 0, 0)));
  return { functions, step, group };
}

const address = { run: "test", phase: "train", step: 0, group: 0, rollout: 0 };
const key = objectKeys.outcome(address);

/** An outcome of rollout 0/0/0 with one invocation. */
async function commitOutcome(step: StepRecord, change: { sub?: object; outcome?: object; damage?: boolean } = {}) {
  const questionId = step.groups[0] ?? "";
  const id = "a".repeat(22);
  const invocation = {
    ...{ id, conversation: said("look!", "found") },
    request: {
      ...{ address, questionId, agent: "searcher", version: 0, call: 0, task: "look!", closedBook: false },
      sampling: { temperature: 1, topP: 1, topK: 0 },
    },
    trajectory: { agent: "searcher", version: 0, tokens: [1], actions: [], logProbs: [] },
    ...change.sub,
  };
  const at = objectKeys.invocation("test", 0, id);
  if (!change.damage) await store.objects.commit(at, bytes(invocation));
  const outcome: Outcome = {
    ...{ status: "finished", address, questionId, conversation: said("?", questionId.slice(1)) },
    trajectory: { agent: "main", version: 0, tokens: [1, 2, 3], actions: [[1, 3]], logProbs: [-1, -2] },
    invocations: [{ id, agent: "searcher", key: at, sha256: sha(bytes(invocation)) }],
    ...change.outcome,
  };
  await store.objects.commit(key, bytes(outcome));
}

test("R_M = 0.1 + 0.9 * 1 = 1; R_S = 0.1 + 0.4 * 1 + 0.5 * 1 = 1", async () => {
  const { functions, step, group } = await started(teamConfig());
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  const digest = async (at: string) => digestOf(sha((await store.objects.get(at)) ?? ""));
  const id = "a".repeat(22);
  const sub = { id, reward: 1, expert: 1, digest: await digest(objectKeys.invocation("test", 0, id)) };
  expect((await group()).rollouts["0"]).toEqual({
    ...{ reward: 1, correct: 1, wellFormed: true, tokens: 2 },
    ...{ digest: await digest(key), invocations: { searcher: [sub] } },
  });
});

test.each([
  [
    "truncated sub, zero",
    {},
    { sub: { conversation: said("x!", null, "token-limit") } },
    { reward: 1, sub: 0, masked: undefined },
  ],
  [
    "malformed main",
    {},
    { outcome: { conversation: said("?", null, "malformed") } },
    { reward: 0, sub: 0.6, masked: undefined },
  ],
  [
    "truncated main, mask",
    { overlong: "mask" },
    { outcome: { conversation: said("?", null, "turn-limit") } },
    { reward: 0, sub: 0.6, masked: true },
  ],
] as const)("the agents' own failures are scored: %s", async (_name, algorithm, change, expected) => {
  const { functions, step, group } = await started(teamConfig({ algorithm }));
  await commitOutcome(step, change);
  await functions.scoreRollout({ key });
  const score = (await group()).rollouts["0"];
  if (!score || "excluded" in score) return expect.fail("not scored");
  // 0.6 = 0.1 + 0.4 * 0 + 0.5 * 1: the main agent's failure counts as incorrect.
  expect(score.reward).toBe(expected.reward);
  expect(score.invocations["searcher"]?.[0]?.reward).toBeCloseTo(expected.sub);
  expect(score.masked).toBe(expected.masked);
});

test.each([
  [
    "failed outcome",
    {
      outcome: {
        status: "failed",
        reason: "tool backend",
        conversation: undefined,
        trajectory: undefined,
        invocations: undefined,
      },
    },
    "tool backend",
  ],
  ["an invocation that is not there", { damage: true }, "damaged: invocation runs/test/invocations/000000/"],
  [
    "another version",
    { sub: { trajectory: { agent: "searcher", version: 7, tokens: [1], actions: [], logProbs: [] } } },
    "damaged: searcher sampled from version 7, planned 0",
  ],
  ["another question", { outcome: { questionId: "other" } }, "damaged: its question is other"],
  ["not an outcome", { outcome: { status: "odd" } }, "damaged: runs/test/outcomes/000000/0/0.json"],
])("lost, not scored: %s", async (_name, change, reason) => {
  const { functions, step, group } = await started(teamConfig());
  await commitOutcome(step, change);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({ excluded: expect.stringContaining(reason) });
});

/** The store's clock, moved by hand. */
function stopClock() {
  let now = Date.now();
  store.clock.storeTime = async () => now;
  return (seconds: number) => {
    now += seconds * 1000;
  };
}

const runRecord = async () => store.table.get(tableKeys.run("test"));

test.each([undefined, "paid"])(
  "an outage of judge '%s' halts the run after ten minutes, and excludes nothing; after resume it is asked again",
  async (name) => {
    const pass = stopClock();
    let isOut = true;
    const judge: Rewards = {
      ...rewards,
      ...(name !== undefined && { judge: name }),
      correct: (...asked) => (isOut ? Promise.reject(new Error("503")) : rewards.correct(...asked)),
    };
    const { functions, step, group } = await started(teamConfig({ limits: { attempts: 2 } }), judge);
    await commitOutcome(step);
    for (let minute = 0; minute < 10; minute++) {
      const failed = { code: "judge-failed", retryable: true, message: "the judge failed: 503" };
      await expect(functions.scoreRollout({ key })).rejects.toMatchObject(failed);
      expect(await runRecord()).toMatchObject({ status: "running" });
      pass(60);
    }
    await functions.scoreRollout({ key });
    expect(await runRecord()).toMatchObject({
      status: "halted",
      reason: "no verdict for 10 minutes: the judge failed: 503. Fix the judge, then resume: no rollout is lost",
    });
    expect((await group()).rollouts).toEqual({});
    isOut = false;
    pass(60);
    await store.table.update(resumeRun("test"));
    await functions.tickAll();
    await functions.idle();
    expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  },
);

test("an outage that began before a halt of hours is a new one after resume", async () => {
  const pass = stopClock();
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(new Error("503")) };
  const { functions, step } = await started(teamConfig(), judge);
  await commitOutcome(step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  pass(7200);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  expect(await runRecord()).toMatchObject({ status: "running" });
});

test("after a failure the judge is left alone for a second, then for two, four …", async () => {
  const pass = stopClock();
  let asked = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(new Error(`503 ${asked++}`)) };
  const { functions, step } = await started(teamConfig(), judge);
  await commitOutcome(step);
  const score = () => functions.scoreRollout({ key }).catch(() => {});
  const counts: number[] = [];
  for (let second = 0; second < 8; second++) {
    await score();
    counts.push(asked);
    pass(1);
  }
  // Asked at 0, 1 and 3 s, and next at 7 s.
  expect(counts).toEqual([1, 2, 2, 3, 3, 3, 3, 4]);
});

test("answers that are no verdict are asked for again, up to limits.attempts; then the rollout is lost, not wrong", async () => {
  const pass = stopClock();
  const odd = new MgrpoError("judge-failed", "not JSON", { evidence: { fault: "unusable-answer" } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(odd) };
  const { functions, step, group } = await started(teamConfig({ limits: { attempts: 3 } }), judge);
  await commitOutcome(step);
  for (const _ of [1, 2]) {
    await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
    pass(60);
  }
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({ excluded: "judge: the judge failed: not JSON (3 answers)" });
});

test("a text that the judge's server refuses is lost at once", async () => {
  const refused = new MgrpoError("judge-failed", "filtered", { evidence: { fault: "refused-text" } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(refused) };
  const { functions, step, group } = await started(teamConfig(), judge);
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({ excluded: "judge: the judge failed: filtered" });
});

test.each([undefined, "paid"])("rewards that hang (judge '%s') are given up at their deadline", async (name) => {
  let aborted = false;
  const judge: Rewards = {
    ...rewards,
    ...(name !== undefined && { judge: name }),
    correct: (_question, _conversation, context) => {
      context?.signal.addEventListener("abort", () => {
        aborted = true;
      });
      return new Promise(() => {});
    },
  };
  const { functions, step, group } = await started(teamConfig({ limits: { verdictSeconds: 0.05 } }), judge);
  await commitOutcome(step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({
    ...{ code: "judge-failed", retryable: true, message: "no verdict within 0.05 s (limits.verdictSeconds)" },
  });
  expect(aborted).toBe(true);
  expect((await group()).rollouts).toEqual({});
});

test("a slow judge is asked once, however many processes and ticks want its verdict, and paid once", async () => {
  let asked = 0;
  let answer = (_judgement: Judgement) => {};
  const answered = new Promise<Judgement>((resolve) => {
    answer = resolve;
  });
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const judge: Rewards = {
    ...rewards,
    judge: "paid",
    async correct(_question, _conversation, context) {
      asked++;
      await context?.reserve(1);
      return answered;
    },
  };
  const { functions, step, group } = await started(teamConfig(), judge);
  const others = [1, 2].map(() => openFunctions(openContext(store, { rewardsOf: async () => judge })));
  await commitOutcome(step);
  const scored = functions.scoreRollout({ key });
  for (const _ of [1, 2, 3]) {
    await store.clock.sleep(0.01);
    await Promise.all([functions.tickAll(), ...others.map((other) => other.tickAll())]);
  }
  await Promise.all(others.map((other) => other.scoreRollout({ key })));
  // On the bill before the answer.
  expect(await store.table.get(tableKeys.judgeSpending("test"))).toMatchObject({ verdicts: 0, microUsd: 1_000_000 });
  answer({ score: 1, cost });
  await scored;
  expect(asked).toBe(1);
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  expect(await store.table.get(tableKeys.judgeSpending("test"))).toMatchObject({ verdicts: 1, microUsd: 250_000 });
});

test("an asker that was killed is on the bill with what it reserved, and the next asks once its claim ends", async () => {
  const pass = stopClock();
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  let asked = 0;
  const judge: Rewards = {
    ...rewards,
    judge: "paid",
    async correct(_question, _conversation, context) {
      await context?.reserve(1);
      return asked++ === 0 ? new Promise(() => {}) : { score: 1, cost };
    },
  };
  const { functions: killed, step, group } = await started(teamConfig(), judge);
  await commitOutcome(step);
  void killed.scoreRollout({ key });
  await store.clock.sleep(0.01);
  const next = openFunctions(openContext(store, { rewardsOf: async () => judge }));
  await next.scoreRollout({ key });
  expect((await group()).rollouts).toEqual({});
  pass(180 + 60);
  await next.tickAll();
  await next.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  expect(await store.table.get(tableKeys.judgeSpending("test"))).toMatchObject({ microUsd: 1_250_000 });
});

test("a judge that hangs holds up neither ticks, nor the budget, nor other runs; a halted run asks no judge", async () => {
  let asked = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => new Promise(() => void asked++) };
  const config = teamConfig({ budget: { usd: 1, usdPerWorkerHour: { "*": 0 } } });
  const { functions, step } = await started(config, judge);
  await functions.startRun(await prepare(store.objects, teamConfig({ run: "other" })));
  await commitOutcome(step);
  await functions.tickAll();
  await store.clock.sleep(0.01);
  expect(asked).toBe(1);
  await store.table.insert(tableKeys.toolSpending("test"), {
    ...{ run: "test", calls: 1, microUsd: 2_000_000, blocked: 0, maxCalls: null, maxUsd: null },
  });
  await functions.tickAll();
  expect(await runRecord()).toMatchObject({ status: "halted", reason: expect.stringContaining("budget is spent") });
  const restarted = openFunctions(openContext(store, { rewardsOf: async () => judge }));
  const later = await playRollout(store.objects, config, step, 1, 0);
  await restarted.scoreRollout({ key: later });
  expect(asked).toBe(1);
  await functions.stop();
});

test("a judge that refuses the request halts the run with its reason; nothing is scored, and after resume the clock asks again", async () => {
  const unpaid = new MgrpoError("endpoint-refused", "model 'j' wants to be paid first (HTTP 402)");
  let isPaid = false;
  const judge: Rewards = {
    ...rewards,
    correct: (...asked) => (isPaid ? rewards.correct(...asked) : Promise.reject(unpaid)),
  };
  const { functions, step, group } = await started(teamConfig(), judge);
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "halted", reason: unpaid.message });
  expect(await group()).toMatchObject({ rollouts: {}, crashes: {}, judgeFailures: {} });
  isPaid = true;
  await store.table.update(resumeRun("test"));
  await functions.tick({ run: "test" });
  await functions.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
});

test("an invalid answer of the judge does not halt the run: it is paid for and retried", async () => {
  const odd = new MgrpoError("endpoint-refused", "not of the schema");
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const failed = new MgrpoError("judge-failed", odd.message, { retryable: true, cause: odd, evidence: { cost } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(failed) };
  const { functions, step } = await started(teamConfig({ limits: { attempts: 3 } }), judge);
  await commitOutcome(step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "running" });
  expect(await store.table.get(tableKeys.judgeSpending("test"))).toMatchObject({ verdicts: 0, microUsd: 250_000 });
});

test("an error in the recipe's rewards halts the run at once: nothing is lost, and the resumed run scores it", async () => {
  let isFixed = false;
  const buggy: Rewards = {
    ...rewards,
    correct: (...asked) => {
      if (isFixed) return rewards.correct(...asked);
      throw new TypeError("no answer");
    },
  };
  const { functions, step, group } = await started(teamConfig(), checkedRewards(buggy, "recipes/mine/rewards.ts"));
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({
    status: "halted",
    reason: expect.stringMatching(
      /^recipes\/mine\/rewards\.ts: correct\(\) of question .* threw TypeError: no answer$/,
    ),
  });
  expect(await group()).toMatchObject({ rollouts: {}, crashes: {} });
  isFixed = true;
  await store.table.update(resumeRun("test"));
  await functions.tick({ run: "test" });
  await functions.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
});

test("a score outside [0, 1] counts as a failure of the judge", async () => {
  const { functions, step } = await started(teamConfig(), { ...rewards, expert: () => Number.NaN });
  await commitOutcome(step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
});

test("a judge that costs is asked once per trajectory; its first verdict counts", async () => {
  let asked = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => (asked++ === 0 ? 0.25 : 1) };
  const { functions, step, group } = await started(teamConfig(), judge);
  await commitOutcome(step);
  await Promise.all([functions.scoreRollout({ key }), functions.scoreRollout({ key })]);
  const before = asked;
  await functions.scoreRollout({ key });
  expect(asked).toBe(before);
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 0.25 });
});

test("a model's verdict is stored in full, and its cost is part of the rollout's score", async () => {
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const verdict = { score: 0.5, votes: [{ score: 0.5, reason: "half" }], cost };
  const judge: Rewards = { judge: "paid", correct: () => verdict, expert: () => ({ ...verdict, score: 1 }) };
  const { functions, step, group } = await started(teamConfig(), judge);
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toMatchObject({
    ...{ correct: 0.5, judged: { inputTokens: 200, outputTokens: 20, usd: 0.5 } },
    invocations: { searcher: [{ expert: 1 }] },
  });
  const outcome = (await store.objects.get(key)) ?? new Uint8Array();
  const kept = await store.objects.get(objectKeys.verdict("test", sha(outcome), "paid"));
  expect(JSON.parse(new TextDecoder().decode(kept))).toEqual(verdict);
});

test("judges count towards budget.usd, each verdict once, and a run over its budget is halted", async () => {
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const judge: Rewards = { judge: "paid", correct: () => ({ score: 1, cost }), expert: () => ({ score: 1, cost }) };
  const config = teamConfig({ budget: { usd: 0.5, usdPerWorkerHour: { "*": 0 } } });
  const { functions, step } = await started(config, judge);
  await functions.tick({ run: "test" });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "running" });
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  await functions.scoreRollout({ key });
  expect(await store.table.get(tableKeys.judgeSpending("test"))).toEqual({
    run: "test",
    verdicts: 2,
    microUsd: 500_000,
  });
  await functions.tick({ run: "test" });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({
    ...{ status: "halted", maxUsd: 0.5 },
    reason:
      "its budget is spent: $0.50 of $0.5 for 0.00 worker hours, $0.50 of judges; allow more with --extend-usd <dollars>",
  });
});

test("the clock repairs a crash between the last score and the finalization", async () => {
  const config = teamConfig();
  const { functions, step, group } = await started(config);
  const finalize = store.table.update;
  store.table.update = async (change) => {
    if (change.set?.some(([path]) => path[0] === "finalized")) throw new Error("the function died");
    return finalize(change);
  };
  const keys = [0, 1, 2].map((k) => playRollout(store.objects, config, step, 0, k));
  for (const each of keys) await functions.scoreRollout({ key: await each }).catch(() => {});
  expect(await group()).toMatchObject({ state: "open", rollouts: { "0": {}, "1": {}, "2": {} } });
  store.table.update = finalize;
  await functions.tickAll();
  expect(await group()).toMatchObject({ state: "finalized", finalized: { main: { trajectories: [0, 1, 2] } } });
});

test("a healthy rollout costs one read per object and one write", async () => {
  const { functions, step } = await started(teamConfig());
  await commitOutcome(step);
  await functions.scoreRollout({ key });
  const calls: string[] = [];
  const counted =
    <A, R>(name: string, call: (argument: A) => R) =>
    (argument: A): R => {
      calls.push(name);
      return call(argument);
    };
  const { get } = store.objects;
  store.objects.get = counted("get", get);
  store.table.get = counted("read", store.table.get);
  store.table.update = counted("update", store.table.update);
  const other = await playRollout(store.objects, teamConfig(), step, 1, 0);
  const outcome = JSON.parse(new TextDecoder().decode(await get(other))) as { invocations: unknown[] };
  await functions.scoreRollout({ key: other });
  expect(calls).toEqual([...["get"], ...outcome.invocations.map(() => "get"), "update"]);
});
