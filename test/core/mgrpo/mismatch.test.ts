/** @file The distance between sampler and trainer: zero when they agree, positive otherwise, and an unbiased estimate of the KL. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { mismatch } from "../../../core/mgrpo/mismatch.ts";

const logProbs = fc.array(fc.double({ min: -8, max: 0, noNaN: true }), { minLength: 1, maxLength: 10 });

test("the estimate is exactly 0 for equal log-probs, and positive if one of the trainer's is lower", () => {
  fc.assert(
    fc.property(logProbs, fc.double({ min: 0.01, max: 2, noNaN: true }), (behavior, shift) => {
      expect(mismatch(behavior, behavior)).toEqual({ klSum: 0, maxRatioDeviation: 0 });
      const shifted = mismatch(
        behavior.map((value, i) => (i === 0 ? value - shift : value)),
        behavior,
      );
      expect(shifted.klSum).toBeGreaterThan(0);
      expect(shifted.maxRatioDeviation).toBeCloseTo(1 - Math.exp(-shift), 12);
    }),
  );
});

test("the expected estimate under the behavior policy is KL(behavior || current)", () => {
  // behavior (1/2, 1/4, 1/4), current (1/4, 1/4, 1/2): KL = 1/2 ln 2 + 0 + 1/4 ln 1/2 = 0.173287
  const [behavior, current] = [
    [0.5, 0.25, 0.25],
    [0.25, 0.25, 0.5],
  ];
  const estimate = behavior.reduce(
    (sum, p, i) => sum + p * mismatch([Math.log(current[i] ?? 0)], [Math.log(p)]).klSum,
    0,
  );
  expect(estimate).toBeCloseTo(0.25 * Math.LN2, 12);
});

test("a missing log-prob makes the ratio deviation NaN", () => {
  expect(mismatch([-1, -2], [-1]).maxRatioDeviation).toBeNaN();
});
