/** @file Bounded concurrency: order, width, and a failure that ends what has started. */
import { expect, test } from "vitest";
import { inParallel } from "../../gpu-workers/parallel.ts";

test("results are in order, and no more than `width` items run at a time", async () => {
  let running = 0;
  const seen: number[] = [];
  const results = await inParallel([5, 1, 3, 2, 4], 2, async (item) => {
    seen.push(++running);
    await new Promise((resolve) => setTimeout(resolve, item));
    running -= 1;
    return 10 * item;
  });
  expect(results).toEqual([50, 10, 30, 20, 40]);
  expect(Math.max(...seen)).toBe(2);
});

test("a failure aborts the items that have started, skips the others, and rejects once all have ended", async () => {
  const ended: string[] = [];
  const work = async (item: string, _index: number, failed: AbortSignal) => {
    if (item === "bad") throw new Error("it is bad");
    await new Promise((resolve) => failed.addEventListener("abort", resolve, { once: true }));
    await new Promise((resolve) => setTimeout(resolve, 10));
    ended.push(item);
    throw new Error("canceled");
  };
  await expect(inParallel(["slow", "bad", "late"], 2, work)).rejects.toThrow("it is bad");
  expect(ended).toEqual(["slow"]);
});
