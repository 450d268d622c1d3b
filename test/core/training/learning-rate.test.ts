/** @file The learning rate over a run. */
import { expect, test } from "vitest";
import { OptimizerConfig, ScheduledOptimizer } from "../../../core/contracts/agent-config.ts";
import { optimizerAt } from "../../../core/training/learning-rate.ts";

const rates = (schedule: ScheduledOptimizer["schedule"], warmupRatio = 0, steps = 4) => {
  const optimizer = ScheduledOptimizer.parse({ learningRate: 0.8, schedule, warmupRatio });
  return Array.from({ length: steps }, (_, step) => optimizerAt(optimizer, step / steps, steps).learningRate);
};
const closeTo = (values: number[]) => values.map((value) => expect.closeTo(value, 9));

test("a constant rate does not change; a linear one falls by the same amount every step and would be 0 after the last", () => {
  expect(rates("constant")).toEqual([0.8, 0.8, 0.8, 0.8]);
  expect(rates("linear")).toEqual([0.8, expect.closeTo(0.6), expect.closeTo(0.4), expect.closeTo(0.2)]);
});

test("the engine's optimizer config has no schedule", () => {
  expect(Object.keys(optimizerAt(ScheduledOptimizer.parse({}), 0, 4))).toEqual(Object.keys(OptimizerConfig.parse({})));
});

test("a server's optimizer gets the learning rate of its schedule, and nothing else", () => {
  const optimizer = { kind: "server", learningRate: 0.8, schedule: "linear", warmupRatio: 0 } as const;
  expect(optimizerAt(optimizer, 0.25, 4)).toEqual({ kind: "server", learningRate: expect.closeTo(0.6) });
});

test("a cosine schedule of 0.8 over four steps: 0.4 (1 + cos(pi i/4)), so half the rate at half the run", () => {
  expect(rates("cosine")).toEqual(closeTo([0.8, 0.4 * (1 + Math.SQRT1_2), 0.4, 0.4 * (1 - Math.SQRT1_2)]));
});

test("the rate rises by equal amounts during warm-up and is never 0; the decay begins afterward", () => {
  // 10 steps, 4 of warm-up: 1/5 ... 4/5 of 0.8. The 6 others fall linearly from 0.8 to 0.8/6.
  const rise = [0.16, 0.32, 0.48, 0.64];
  const fall = [6, 5, 4, 3, 2, 1].map((n) => (0.8 * n) / 6);
  expect(rates("linear", 0.4, 10)).toEqual(closeTo([...rise, ...fall]));
  expect(rates("constant", 0.4, 10)).toEqual(closeTo([...rise, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]));
  expect(rates("cosine", 0.4, 10)[7]).toBeCloseTo(0.4, 9);
});

test("a server's optimizer warms up too", () => {
  const optimizer = { kind: "server", learningRate: 0.8, schedule: "constant", warmupRatio: 0.5 } as const;
  expect(optimizerAt(optimizer, 0, 4)).toEqual({ kind: "server", learningRate: expect.closeTo(0.8 / 3) });
});
