/** @file The resamples behind an interval, drawn again by other code from the same stream, and the table of linearized scores. */
import { expect, test } from "vitest";
import { stream } from "../../../core/random.ts";
import { differenceTable, shareEstimate } from "../../../core/training/bootstrap.ts";

test("an interval's bounds are the interpolated quantiles of 2,000 resamples from the stream `bootstrap`, so it can be computed again", () => {
  const shares = [0.11, 0.23, 0.31, 0.47, 0.59, 0.71, 0.97];
  const random = stream("again", 3, "bootstrap");
  const means = Array.from({ length: 2000 }, () => {
    const drawn = Array.from({ length: 6 }, () => shares[random.integer(7)] ?? Number.NaN);
    return drawn.reduce((sum, share) => sum + share, 0) / 6;
  }).toSorted((a, b) => a - b);
  // 1,999 gaps: the quantiles are at 49.975 and 1949.025 of them.
  const at = (i: number) => means[i] ?? Number.NaN;
  const low = at(49) + 0.975 * (at(50) - at(49));
  const high = at(1949) + 0.025 * (at(1950) - at(1949));
  expect([at(49) < at(50), at(1949) < at(1950)]).toEqual([true, true]);
  const found = shareEstimate([shares.map((correct) => ({ n: 1, correct }))], ["again", 3]);
  expect(found).toEqual({
    value: expect.closeTo(3.39 / 7, 12),
    low: expect.closeTo(low, 12),
    high: expect.closeTo(high, 12),
  });
});

test("by hand: the linearized scores of a difference weigh each question by its rollouts", () => {
  // First arm: share 5/6, a mean of 3 rollouts a question: (1 - 5/6 * 2) / 3 = -2/9 and (4 - 5/6 * 4) / 3 = 2/9.
  const a = [
    [
      { n: 2, correct: 1 },
      { n: 4, correct: 4 },
    ],
  ];
  // Second arm, subtracted: share 1/2, one rollout a question: -1/2 and 1/2.
  const b = [
    [
      { n: 1, correct: 0 },
      { n: 1, correct: 1 },
    ],
  ];
  expect(differenceTable(a, b)).toEqual([[expect.closeTo(-2 / 9 + 1 / 2, 12), expect.closeTo(2 / 9 - 1 / 2, 12)]]);
});
