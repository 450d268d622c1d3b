/** @file The learning rate over a run. */
import { expect, test } from "vitest";
import { ScheduledOptimizer } from "../../../core/contracts/agent-config.ts";
import { optimizerAt } from "../../../core/training/learning-rate.ts";

const rates = (schedule: "constant" | "linear") => {
  const optimizer = ScheduledOptimizer.parse({ learningRate: 0.8, schedule });
  return [0, 1, 2, 3].map((step) => optimizerAt(optimizer, step / 4).learningRate);
};

test("a constant rate does not change; a linear one falls by the same amount every step and would be 0 after the last", () => {
  expect(rates("constant")).toEqual([0.8, 0.8, 0.8, 0.8]);
  expect(rates("linear")).toEqual([0.8, expect.closeTo(0.6), expect.closeTo(0.4), expect.closeTo(0.2)]);
});

test("the engine's optimizer config has no schedule", () => {
  expect(optimizerAt(ScheduledOptimizer.parse({}), 0)).not.toHaveProperty("schedule");
});

test("a server's optimizer gets the learning rate of its schedule, and nothing else", () => {
  const optimizer = { kind: "server", learningRate: 0.8, schedule: "linear" } as const;
  expect(optimizerAt(optimizer, 0.25)).toEqual({ kind: "server", learningRate: expect.closeTo(0.6) });
});
