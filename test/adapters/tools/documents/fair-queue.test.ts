/** @file The queue that gives callers equal turns. */
import { expect, test } from "vitest";
import { FairQueue } from "../../../../adapters/tools/documents/fair-queue.ts";

test("callers take turns, each caller's items stay in order, and clearing returns the items that are left", () => {
  const queue = new FairQueue<string>();
  const [a, b, c] = ["a", "b", "c"];
  for (const [caller, item] of [
    [a, "a1"],
    [a, "a2"],
    [a, "a3"],
    [b, "b1"],
    [c, "c1"],
    [b, "b2"],
  ] as const)
    queue.add(caller, item);
  const taken = Array.from({ length: 4 }, () => queue.take());
  queue.add(c, "c2");
  taken.push(queue.take(), queue.take(), queue.take(), queue.take());
  expect(taken).toEqual(["a1", "b1", "c1", "a2", "b2", "a3", "c2", undefined]);
  queue.add(a, "left");
  expect(queue.clear()).toEqual(["left"]);
  expect(queue.take()).toBeUndefined();
});
