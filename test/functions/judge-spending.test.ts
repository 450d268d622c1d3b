/**
 * @file A paid judge is asked by one process at a time, and once per trajectory unless that process is killed. Its maximum cost is charged before
 * it answers. Its verdict and its actual cost are recorded, and the cost counts toward budget.usd.
 */
import { beforeEach, expect, test } from "vitest";
import type { Judgment } from "../../core/contracts/judge.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { Rewards } from "../../core/ports.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { judgeSpendingOf } from "../fakes/judge-spending.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { rewards, sha, teamConfig } from "../fakes/scripted-team.ts";
import { commitOutcome, key, started, stopClock } from "./one-outcome.ts";

let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});

test("a slow judge is asked once, however many processes and ticks want its verdict, and is paid once", async () => {
  let requests = 0;
  let answer = (_judgment: Judgment) => {};
  const answered = new Promise<Judgment>((resolve) => {
    answer = resolve;
  });
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const judge: Rewards = {
    ...rewards,
    judge: "paid",
    async correct(_question, _conversation, context) {
      requests++;
      await context?.reserve(1);
      return answered;
    },
  };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  const others = [1, 2].map(() => openFunctions(openContext(store, { rewardsOf: async () => judge })));
  await commitOutcome(store, step);
  const scored = functions.scoreRollout({ key });
  // The maximum cost is charged before the judge answers.
  const charged = { verdicts: 0, microUsd: 1_000_000 };
  await expect.poll(() => judgeSpendingOf(store.table, "test")).toMatchObject(charged);
  for (const _ of [1, 2, 3]) await Promise.all([functions, ...others].map((each) => each.tickAll()));
  await Promise.all(others.map((other) => other.scoreRollout({ key })));
  expect(await judgeSpendingOf(store.table, "test")).toMatchObject(charged);
  answer({ score: 1, cost });
  await scored;
  expect(requests).toBe(1);
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  expect(await judgeSpendingOf(store.table, "test")).toMatchObject({ verdicts: 1, microUsd: 250_000 });
});

test("what a killed process reserved stays charged; the next process asks after the claim has expired", async () => {
  const pass = stopClock(store);
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  let requests = 0;
  const judge: Rewards = {
    ...rewards,
    judge: "paid",
    async correct(_question, _conversation, context) {
      await context?.reserve(1);
      return requests++ === 0 ? new Promise(() => {}) : { score: 1, cost };
    },
  };
  const { functions: killed, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  const abandoned = killed.scoreRollout({ key }).catch(() => {});
  await expect.poll(() => requests).toBe(1);
  const next = openFunctions(openContext(store, { rewardsOf: async () => judge }));
  await next.scoreRollout({ key });
  expect((await group()).rollouts).toEqual({});
  pass(180 + 60);
  await next.tickAll();
  await next.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  expect(await judgeSpendingOf(store.table, "test")).toMatchObject({ microUsd: 1_250_000 });
  await killed.stop();
  await abandoned;
});

test("a paid judge is asked once per trajectory; its first verdict counts", async () => {
  let requests = 0;
  const judge: Rewards = { ...rewards, judge: "paid", correct: () => (requests++ === 0 ? 0.25 : 1) };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  await Promise.all([functions.scoreRollout({ key }), functions.scoreRollout({ key })]);
  await functions.scoreRollout({ key });
  expect(requests).toBe(1);
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 0.25 });
});

test("a model's verdict is stored in full, and its cost is recorded with the rollout's score", async () => {
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const verdict = { score: 0.5, votes: [{ score: 0.5, reason: "half" }], cost };
  const judge: Rewards = { judge: "paid", correct: () => verdict, expert: () => ({ ...verdict, score: 1 }) };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toMatchObject({
    ...{ correct: 0.5, judged: { inputTokens: 200, outputTokens: 20, usd: 0.5 } },
    invocations: { searcher: [{ expert: 1 }] },
  });
  const outcome = (await store.objects.get(key)) ?? new Uint8Array();
  const kept = await store.objects.get(objectKeys.verdict("test", sha(outcome), "paid"));
  expect(JSON.parse(new TextDecoder().decode(kept))).toEqual(verdict);
});

test("a judge is not asked about a sub-agent's work if the score has no weight in the reward", async () => {
  const asked: string[] = [];
  const judge: Rewards = {
    judge: "paid",
    correct: () => asked.push("correct") && 1,
    expert: () => asked.push("expert") && 0.5,
  };
  const { algorithm, ...others } = teamConfig();
  const config = { ...others, algorithm: { ...algorithm, subReward: { format: 0.5, correct: 0.5, expert: 0 } } };
  const { functions, step, group } = await started(store, config, judge);
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  expect(asked).toEqual(["correct"]);
  expect((await group()).rollouts["0"]).toMatchObject({ invocations: { searcher: [{ reward: 1 }] } });
});

test("judges count toward budget.usd, each verdict once, and a run that has spent its budget is halted", async () => {
  const cost = { inputTokens: 100, outputTokens: 10, usd: 0.25 };
  const judge: Rewards = { judge: "paid", correct: () => ({ score: 1, cost }), expert: () => ({ score: 1, cost }) };
  const config = teamConfig({ budget: { usd: 0.5, usdPerWorkerHour: { "*": 0 } } });
  const { functions, step } = await started(store, config, judge);
  await functions.tick({ run: "test" });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({ status: "running" });
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  await functions.scoreRollout({ key });
  expect(await judgeSpendingOf(store.table, "test")).toEqual({
    run: "test",
    verdicts: 2,
    microUsd: 500_000,
    reserved: {},
  });
  await functions.tick({ run: "test" });
  expect(await store.table.get(tableKeys.run("test"))).toMatchObject({
    ...{ status: "halted", maxUsd: 0.5 },
    reason:
      "its budget is spent: $0.50 of $0.5 for 0.00 worker hours, $0.50 of judges; allow more with --budget-usd <dollars in all>",
  });
});
