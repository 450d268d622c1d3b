/** @file What the functions keep in memory: values by key, and finalized groups. */
import { expect, test } from "vitest";
import type { GroupRecord } from "../../core/contracts/records.ts";
import { FinalizedGroups, memo } from "../../functions/caches.ts";

const groupOf = (step: number, group: number, questionId = "q"): GroupRecord => ({
  ...{ run: "test", step, group, questionId, rolloutsPerQuestion: 1, state: "finalized" },
  ...{ crashes: {}, rollouts: {}, finalized: {} },
});

function filled(steps: number, groups: number): FinalizedGroups {
  const cache = new FinalizedGroups();
  for (let step = 0; step < steps; step++) for (let group = 0; group < groups; group++) cache.add(groupOf(step, group));
  return cache;
}

/** The steps whose group 0 is cached. */
const stepsIn = (cache: FinalizedGroups, steps: number) =>
  Array.from({ length: steps }, (_, step) => step).filter((step) => cache.get("test", step, 0));

test("the groups of the last 50 steps are kept", () => {
  expect(stepsIn(filled(60, 2), 60)).toEqual(Array.from({ length: 50 }, (_, i) => 10 + i));
});

test("the oldest steps are evicted while there are more than 5,000 groups", () => {
  expect(stepsIn(filled(4, 2000), 4)).toEqual([2, 3]);
});

test("the oldest steps are evicted while there are more than 500,000 scored rollouts and invocations", () => {
  const digest = "d".repeat(22);
  const searcher = Array.from({ length: 9 }, () => ({ id: digest, reward: 1, expert: 1, digest }));
  const score = { reward: 1, correct: 1, wellFormed: true, tokens: 1, digest, invocations: { searcher } };
  // 100 rollouts with 9 invocations each are 1,000 scores, so a step of 200 groups has 200,000.
  const rollouts = Object.fromEntries(Array.from({ length: 100 }, (_, k) => [String(k), score]));
  const cache = new FinalizedGroups();
  for (let step = 0; step < 4; step++)
    for (let group = 0; group < 200; group++) cache.add({ ...groupOf(step, group), rollouts });
  expect(stepsIn(cache, 4)).toEqual([2, 3]);
});

test("all groups of a single step are kept, however many", () => {
  const cache = filled(1, 6000);
  expect(cache.get("test", 0, 0)).toBeDefined();
  expect(cache.get("test", 0, 5999)).toBeDefined();
});

test("a group that is added again counts once, and is replaced", () => {
  const cache = filled(2, 2500);
  for (let i = 0; i < 10; i++) cache.add(groupOf(1, 0, `q${i}`));
  expect(stepsIn(cache, 2)).toEqual([0, 1]);
  expect(cache.get("test", 1, 0)?.questionId).toBe("q9");
});

test("a group is found only under its own run", () => {
  const cache = filled(1, 1);
  expect(cache.get("other", 0, 0)).toBeUndefined();
});

test("memo: caches values, not absence or failures, and evicts the oldest", async () => {
  const loaded: string[] = [];
  const answers: Record<string, number | undefined> = { a: 1, b: 2, c: 3 };
  const read = memo(2, async (key) => {
    loaded.push(key);
    if (key === "broken") throw new Error("no");
    return answers[key];
  });
  expect([await read("a"), await read("a"), await read("none"), await read("none")]).toEqual([
    1,
    1,
    undefined,
    undefined,
  ]);
  await expect(read("broken")).rejects.toThrow("no");
  await expect(read("broken")).rejects.toThrow("no");
  expect(loaded).toEqual(["a", "none", "none", "broken", "broken"]);
  await read("b");
  await read("c");
  await read("a");
  expect(loaded.slice(5)).toEqual(["b", "c", "a"]);
});
