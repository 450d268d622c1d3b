/** @file The weights of a step's loss: each aggregation by its definition, independent of how a batch is split. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { splitMinibatches, tokenWeights } from "../../../core/mgrpo/batch.ts";

const constantTokens = 100;
const entry = fc.record({
  group: fc.integer({ min: 0, max: 3 }),
  weight: fc.integer({ min: 1, max: 20 }).map((n) => n / 20),
  actionTokens: fc.integer({ min: 1, max: 30 }),
});
const entries = fc.array(entry, { minLength: 1, maxLength: 20 });
const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

test("by hand: two trajectories of one question, w = 1/2 each, 2 and 6 action tokens", () => {
  const given = [
    { group: 0, weight: 0.5, actionTokens: 2 },
    { group: 0, weight: 0.5, actionTokens: 6 },
  ];
  // trajectory-mean: 1/2/2 = 0.25 and 1/2/6 = 0.083333
  const byTrajectory = tokenWeights(given, { aggregation: "trajectory-mean", constantTokens });
  expect(byTrajectory[0]).toBeCloseTo(0.25, 12);
  expect(byTrajectory[1]).toBeCloseTo(1 / 12, 12);
  // token-mean: 8 tokens, 1/8 each
  expect(tokenWeights(given, { aggregation: "token-mean", constantTokens })).toEqual([0.125, 0.125]);
  // constant: 1/2/100
  expect(tokenWeights(given, { aggregation: "constant", constantTokens })).toEqual([0.005, 0.005]);
});

test("trajectory-mean: a trajectory's tokens sum to its weight. token-mean: a question's tokens sum to its weight, equal per unit of weight", () => {
  fc.assert(
    fc.property(entries, (given) => {
      const byTrajectory = tokenWeights(given, { aggregation: "trajectory-mean", constantTokens });
      given.forEach(({ weight, actionTokens }, i) => {
        expect((byTrajectory[i] ?? 0) * actionTokens).toBeCloseTo(weight, 12);
      });
      const byToken = tokenWeights(given, { aggregation: "token-mean", constantTokens });
      for (const group of new Set(given.map((one) => one.group))) {
        const inside = given.flatMap((one, i) => (one.group === group ? [{ ...one, share: byToken[i] ?? 0 }] : []));
        const share = total(inside.map((one) => one.share * one.actionTokens));
        expect(share).toBeCloseTo(total(inside.map((one) => one.weight)), 9);
        const perUnit = inside.map((one) => one.share / one.weight);
        expect(Math.max(...perUnit) - Math.min(...perUnit)).toBeLessThan(1e-9);
      }
    }),
  );
});

test("a trajectory without action tokens has weight 0 and does not affect the others", () => {
  for (const aggregation of ["trajectory-mean", "token-mean", "constant"] as const) {
    const silent = { group: 0, weight: 0.5, actionTokens: 0 };
    const weights = tokenWeights([silent, { group: 0, weight: 0.5, actionTokens: 4 }], { aggregation, constantTokens });
    expect(weights[0]).toBe(0);
    expect(Number.isFinite(weights[1])).toBe(true);
    expect(tokenWeights([silent], { aggregation, constantTokens })).toEqual([0]);
  }
});

test("minibatches: every entry once, none empty, sizes within one, the same split every time", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 12 }),
      (given, count) => {
        const split = splitMinibatches(given, count);
        expect(split).toHaveLength(Math.min(count, given.length));
        expect(split.flat().toSorted()).toEqual(given.toSorted());
        const sizes = split.map((part) => part.length);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        expect(Math.min(...sizes)).toBeGreaterThan(0);
      },
    ),
  );
  expect(splitMinibatches(["a0", "a1", "b0", "b1"], 2)).toEqual([
    ["a0", "b0"],
    ["a1", "b1"],
  ]);
  expect(splitMinibatches([], 3)).toEqual([]);
});
