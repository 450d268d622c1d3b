/**
 * @file Scores of one group share writes, and none is lost, even if one is repeated or a write fails. Scores that ticks request wait for one of
 * their run's slots; the first failure is kept until a tick takes it.
 */
import { expect, test } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Table, TableChange } from "../../core/ports.ts";
import { longestQueueSeconds, ScoreRecorder, ScoringQueue } from "../../functions/pending-scores.ts";
import { memoryTable } from "../fakes/memory-store.ts";
import { teamConfig } from "../fakes/scripted-team.ts";

const address = { run: "test", step: 0, group: 0 };
const key = tableKeys.group("test", 0, 0);
const score = (reward: number) => ({ reward, correct: 1, wellFormed: true, tokens: 10, invocations: {} });

/** A group of four rollouts, and a slow table. `fail` decides whether an update fails. */
async function opened(fail: (update: number) => boolean = () => false) {
  const memory = memoryTable();
  const claims = { "0": "w", "1": "w", "2": "w", "3": "w" };
  await memory.insert(key, { ...address, state: "open", rolloutsPerQuestion: 4, claims, rollouts: {} });
  const updates: TableChange[] = [];
  const table: Table = {
    ...memory,
    async update(change) {
      updates.push(change);
      await new Promise((resolve) => setImmediate(resolve));
      if (fail(updates.length - 1)) throw new MgrpoError("store-unreachable", "no answer", { retryable: true });
      return memory.update(change);
    },
  };
  const rewards = async () => {
    const { rollouts } = (await memory.get(key)) as unknown as { rollouts: Record<string, { reward: number }> };
    return Object.fromEntries(Object.entries(rollouts).map(([k, { reward }]) => [k, reward]));
  };
  const recorder = new ScoreRecorder(table);
  const record = (k: number, reward: number) => recorder.record(address, k, score(reward));
  return { record, updates, rewards, memory };
}

test("scores that arrive during a write share the next one; one caller of each write gets the item", async () => {
  const { record, updates, rewards } = await opened();
  const first = record(0, 0);
  while (updates.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const items = await Promise.all([first, ...[1, 2, 3].map((k) => record(k, k))]);
  expect(await rewards()).toEqual({ 0: 0, 1: 1, 2: 2, 3: 3 });
  expect(updates).toHaveLength(2);
  const counts = items.flatMap((item) => (item ? [Object.keys(item["rollouts"] as object).length] : []));
  expect(counts).toHaveLength(updates.length);
  expect(Math.max(...counts)).toBe(4);
});

test("scores of a large group that arrive together take one write per 50", async () => {
  const { record, updates, rewards } = await opened();
  const first = record(150, 0);
  await Promise.all([first, ...Array.from({ length: 150 }, (_, k) => record(k, k))]);
  expect(Object.keys(await rewards())).toHaveLength(151);
  expect(updates).toHaveLength(4);
});

test("a repeated score changes nothing and does not affect the others", async () => {
  const { record, rewards } = await opened();
  await record(0, 0);
  await Promise.all([1, 0, 2, 0].map((k) => record(k, k + 10)));
  expect(await rewards()).toEqual({ 0: 0, 1: 11, 2: 12 });
});

test("a failed write fails for all callers that share it, and does not block the next one", async () => {
  const { record, rewards } = await opened((update) => update === 0);
  const attempts = await Promise.allSettled([0, 1, 2].map((k) => record(k, k)));
  expect(attempts.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  await Promise.all([0, 1, 2].map((k) => record(k, k)));
  expect(await rewards()).toEqual({ 0: 0, 1: 1, 2: 2 });
});

test("a finalized group accepts no score", async () => {
  const { record, rewards, memory } = await opened();
  await memory.update({ key, set: [[["state"], "finalized"]], when: [] });
  expect(await record(0, 0)).toMatchObject({ state: "finalized" });
  expect(await rewards()).toEqual({});
});

test("at most 32 requested scores of a run are in progress, and each is computed once, although ticks request it again meanwhile", async () => {
  const queue = new ScoringQueue();
  const started: string[] = [];
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  queue.open(async (outcome) => {
    started.push(outcome);
    await ended;
  });
  const outcomes = Array.from({ length: 40 }, (_, k) => `outcome ${k}`);
  for (const _ of [1, 2]) for (const outcome of outcomes) queue.later("run", outcome);
  await expect.poll(() => started).toEqual(outcomes.slice(0, 32));
  // Another run has slots of its own.
  queue.later("other", "its outcome");
  await expect.poll(() => started).toContain("its outcome");
  end();
  await queue.idle();
  expect(started.filter((outcome) => outcome !== "its outcome")).toEqual(outcomes);
});

test("the first failure among a run's requested scores is taken once", async () => {
  const queue = new ScoringQueue();
  queue.open((outcome) => Promise.reject(new Error(outcome)));
  for (const [run, outcome] of [
    ["a", "a1"],
    ["a", "a2"],
    ["b", "b1"],
  ] as const)
    queue.later(run, outcome);
  await queue.idle();
  expect(queue.takeFailure("a")).toEqual(new Error("a1"));
  expect(queue.takeFailure("a")).toBeUndefined();
  expect(queue.takeFailure("b")).toEqual(new Error("b1"));
});

test("an outcome waits for a slot at most until the requests before it, 32 at a time, have reached their deadlines", () => {
  const settings = { questionsPerStep: 2, rolloutsPerQuestion: 48, limits: { verdictSeconds: 100 } };
  expect(longestQueueSeconds(teamConfig(settings))).toBe(300);
  // The outcomes of two steps in flight.
  const stale = teamConfig({ ...settings, staleness: 1, algorithm: { tisCap: 2 } });
  expect(longestQueueSeconds(stale)).toBe(600);
});
