/** @file Failing judges in score-rollout: a failure is retried, or it halts the run, or the rollout is lost. None counts as a wrong answer. */
import { beforeEach, expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import { resumeRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { checkedRewards } from "../../recipes/checked-rewards.ts";
import { judgeSpendingOf } from "../fakes/judge-spending.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { playRollout, prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";
import { commitOutcome, key, started, stopClock } from "./one-outcome.ts";

let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});

const runRecord = async () => store.table.get(tableKeys.run("test"));

test.each([undefined, "paid"])(
  "an outage of the judge (judge: %s) halts the run after ten minutes and excludes nothing; once the run is resumed, the judge is asked again",
  async (name) => {
    const pass = stopClock(store);
    let isOut = true;
    const judge: Rewards = {
      ...rewards,
      ...(name !== undefined && { judge: name }),
      correct: (...args) => (isOut ? Promise.reject(new Error("503")) : rewards.correct(...args)),
    };
    const { functions, step, group } = await started(store, teamConfig({ limits: { attempts: 2 } }), judge);
    await commitOutcome(store, step);
    for (let minute = 0; minute < 10; minute++) {
      const failed = { code: "judge-failed", retryable: true, message: "the judge failed: 503" };
      await expect(functions.scoreRollout({ key })).rejects.toMatchObject(failed);
      expect(await runRecord()).toMatchObject({ status: "running" });
      pass(60);
    }
    await functions.scoreRollout({ key });
    expect(await runRecord()).toMatchObject({
      status: "halted",
      reason: "no verdict for 10 minutes: the judge failed: 503. Fix the cause, then resume: no rollout is lost",
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

test("a failure hours after the last one, as after a halt, starts a new outage", async () => {
  const pass = stopClock(store);
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(new Error("503")) };
  const { functions, step } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  pass(7200);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  expect(await runRecord()).toMatchObject({ status: "running" });
});

test("an outage in a large run halts it, although the judge is asked again about an outcome only after a long wait", async () => {
  const pass = stopClock(store);
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(new Error("503")) };
  const limits = { verdictSeconds: 180 };
  const config = teamConfig({ questionsPerStep: 4, rolloutsPerQuestion: 64, limits });
  const { functions, step } = await started(store, config, judge);
  await commitOutcome(store, step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  // 256 outcomes, 32 at a time, each for 180 s and 1 s of grace.
  pass(8 * 181);
  await functions.scoreRollout({ key });
  const reason = expect.stringContaining("no verdict for 24 minutes");
  expect(await runRecord()).toMatchObject({ status: "halted", reason });
});

test("rewards that cannot be opened halt a large run, although each outcome waits long for its turn", async () => {
  const pass = stopClock(store);
  const slow = new MgrpoError("judge-failed", "the rewards did not open within 60 s", { retryable: true });
  let isOut = false;
  const rewardsOf = () => (isOut ? Promise.reject(slow) : Promise.resolve(rewards));
  const config = teamConfig({ questionsPerStep: 4, rolloutsPerQuestion: 64, limits: { verdictSeconds: 180 } });
  const { functions, step } = await started(store, config, rewardsOf);
  await commitOutcome(store, step);
  isOut = true;
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
  // 256 outcomes, as above.
  pass(8 * 181);
  await functions.scoreRollout({ key });
  const reason = expect.stringContaining("no verdict for 24 minutes");
  expect(await runRecord()).toMatchObject({ status: "halted", reason });
});

test("the pause after a failure doubles: one second, two, four …", async () => {
  const pass = stopClock(store);
  let requests = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(new Error(`503 ${requests++}`)) };
  const { functions, step } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  const score = () => functions.scoreRollout({ key }).catch(() => {});
  const counts: number[] = [];
  for (let second = 0; second < 8; second++) {
    await score();
    counts.push(requests);
    pass(1);
  }
  // Asked at 0, 1 and 3 s, and next at 7 s.
  expect(counts).toEqual([1, 2, 2, 3, 3, 3, 3, 4]);
});

test("a judge whose answer is not a verdict is asked again, up to limits.attempts; then the rollout is lost, not wrong", async () => {
  const pass = stopClock(store);
  const odd = new MgrpoError("judge-failed", "not JSON", { evidence: { fault: "unusable-answer" } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(odd) };
  const { functions, step, group } = await started(store, teamConfig({ limits: { attempts: 3 } }), judge);
  await commitOutcome(store, step);
  for (const _ of [1, 2]) {
    await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
    pass(60);
  }
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({
    excluded: "judge: the judge failed: not JSON (unusable answers: 3)",
  });
});

test("a rollout whose text the judge's server refuses is lost at once", async () => {
  const refused = new MgrpoError("judge-failed", "filtered", { evidence: { fault: "refused-text" } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(refused) };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({ excluded: "judge: the judge failed: filtered" });
});

test.each([undefined, "paid"])("rewards that hang (judge: %s) are aborted; nothing is scored", async (name) => {
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
  const { functions, step, group } = await started(store, teamConfig({ limits: { verdictSeconds: 0.05 } }), judge);
  await commitOutcome(store, step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({
    ...{ code: "judge-failed", retryable: true },
    message: expect.stringMatching(
      /^no verdict within 0\.05 s \(limits\.verdictSeconds\) on a conversation about question '\S+'$/,
    ),
  });
  expect(aborted).toBe(true);
  expect((await group()).rollouts).toEqual({});
});

test("a judge that hangs holds up neither ticks, nor the budget, nor other runs; a halted run asks no judge", async () => {
  let requests = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => new Promise(() => void requests++) };
  const budget = { usd: 1, usdPerWorkerHour: { "*": 0 } };
  const config = teamConfig({ budget });
  const { functions, step } = await started(store, config, judge);
  await functions.startRun(await prepare(store.objects, teamConfig({ run: "other", budget })));
  await commitOutcome(store, step);
  await functions.tickAll();
  await expect.poll(() => requests).toBe(1);
  const spent = { calls: 1, microUsd: 2_000_000, blocked: 0, maxCalls: null, maxUsd: null };
  for (const run of ["test", "other"]) await store.table.insert(tableKeys.toolSpending(run), { run, ...spent });
  await functions.tickAll();
  const halted = { status: "halted", reason: expect.stringContaining("budget is spent") };
  for (const run of ["test", "other"]) expect(await store.table.get(tableKeys.run(run))).toMatchObject(halted);
  const restarted = openFunctions(openContext(store, { rewardsOf: async () => judge }));
  const later = await playRollout(store.objects, config, step, 1, 0);
  await restarted.scoreRollout({ key: later });
  expect(requests).toBe(1);
  await functions.stop();
});

test("a judge that refuses the request halts the run with its reason; nothing is scored, and after a resume a tick asks again", async () => {
  const unpaid = new MgrpoError("endpoint-refused", "model 'j' requires payment: top up the account (HTTP 402)");
  let isPaid = false;
  const judge: Rewards = {
    ...rewards,
    correct: (...args) => (isPaid ? rewards.correct(...args) : Promise.reject(unpaid)),
  };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "halted", reason: unpaid.message });
  expect(await group()).toMatchObject({ rollouts: {}, crashes: {} });
  isPaid = true;
  await store.table.update(resumeRun("test"));
  await functions.tick({ run: "test" });
  await functions.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
});

test("an invalid answer from the judge does not halt the run: it is paid for and retried", async () => {
  const odd = new MgrpoError("endpoint-refused", "not of the schema");
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const failed = new MgrpoError("judge-failed", odd.message, { retryable: true, cause: odd, evidence: { cost } });
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => Promise.reject(failed) };
  const { functions, step } = await started(store, teamConfig({ limits: { attempts: 3 } }), judge);
  await commitOutcome(store, step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "running" });
  expect(await judgeSpendingOf(store.table, "test")).toMatchObject({ verdicts: 0, microUsd: 250_000 });
});

test("an error in the recipe's rewards halts the run at once: nothing is lost, and the resumed run scores the rollout", async () => {
  let isFixed = false;
  const buggy: Rewards = {
    ...rewards,
    correct: (...args) => {
      if (isFixed) return rewards.correct(...args);
      throw new TypeError("no answer");
    },
  };
  const { functions, step, group } = await started(
    store,
    teamConfig(),
    checkedRewards(buggy, "recipes/mine/rewards.ts"),
  );
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({
    status: "halted",
    reason: expect.stringMatching(
      /^recipes\/mine\/rewards\.ts: correct\(\) for question .* threw TypeError: no answer$/,
    ),
  });
  expect(await group()).toMatchObject({ rollouts: {}, crashes: {} });
  isFixed = true;
  await store.table.update(resumeRun("test"));
  await functions.tick({ run: "test" });
  await functions.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
});

test.each([
  new MgrpoError("config-invalid", "judge.model.keyVariable: OPENAI_API_KEY is not set"),
  new MgrpoError("recipe-invalid", "recipe 'recipes/mine' does not exist"),
])(
  "rewards that cannot be opened ($code) halt the run with the reason and the process that has it; the resumed run scores the rollout",
  async (refusal) => {
    let canOpen = true;
    const rewardsOf = () => (canOpen ? Promise.resolve(rewards) : Promise.reject(refusal));
    const { functions, step, group } = await started(store, teamConfig(), rewardsOf);
    await commitOutcome(store, step);
    canOpen = false;
    await functions.scoreRollout({ key });
    const reason = `the process that runs the functions, such as cloud serve or dispatch, cannot open the rewards: ${refusal.message}`;
    expect(await runRecord()).toMatchObject({ status: "halted", reason });
    expect((await group()).rollouts).toEqual({});
    canOpen = true;
    await store.table.update(resumeRun("test"));
    await functions.tick({ run: "test" });
    await functions.idle();
    expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  },
);

test("a crash of the rewards' thread while it opens them is an outage: it is retried, and after ten minutes the run is halted", async () => {
  const pass = stopClock(store);
  const crash = new MgrpoError("judge-failed", "the thread that runs the rewards crashed: x", { retryable: true });
  let isOut = false;
  const rewardsOf = () => (isOut ? Promise.reject(crash) : Promise.resolve(rewards));
  const { functions, step, group } = await started(store, teamConfig(), rewardsOf);
  await commitOutcome(store, step);
  isOut = true;
  for (let minute = 0; minute < 10; minute++) {
    const failed = { code: "judge-failed", retryable: true, message: crash.message };
    await expect(functions.scoreRollout({ key })).rejects.toMatchObject(failed);
    pass(60);
  }
  await functions.scoreRollout({ key });
  expect(await runRecord()).toMatchObject({
    status: "halted",
    reason: expect.stringContaining(`no verdict for 10 minutes: ${crash.message}`),
  });
  expect((await group()).rollouts).toEqual({});
});

test("a score of NaN, which is not in [0, 1], counts as a failure of the judge", async () => {
  const { functions, step } = await started(store, teamConfig(), { ...rewards, expert: () => Number.NaN });
  await commitOutcome(store, step);
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "judge-failed" });
});
