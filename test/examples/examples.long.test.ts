/** @file The examples learn: a few steps raise the reward. */
import { expect, test } from "vitest";

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

test("examples/loop.ts: GRPO on one model raises the reward within ten steps", async () => {
  const { train } = await import("../../examples/loop.ts");
  const { rewards } = await train(10, () => {});
  expect(mean(rewards.slice(-4))).toBeGreaterThan(mean(rewards.slice(0, 2)) + 0.1);
});

test("examples/team.ts: training both agents raises the reward within eight steps", async () => {
  const { train } = await import("../../examples/team.ts");
  const { rewards } = await train(8, () => {});
  expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 2)) + 0.05);
});
