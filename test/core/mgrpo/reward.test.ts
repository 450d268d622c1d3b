/** @file Rewards: eq 4 and 5, the correctness that a caller passes on, and DAPO's overlong penalty. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { callerCorrect, mainReward, overlongPenalty, subReward } from "../../../core/mgrpo/reward.ts";

const a = { format: 0.1, correct: 0.9 };
const b = { format: 0.1, correct: 0.4, expert: 0.5 };
const score = fc.double({ min: 0, max: 1, noNaN: true });

test("eq 4: a well-formed wrong answer gets the format reward, a correct one the full reward", () => {
  expect(mainReward(true, 0, a)).toBeCloseTo(0.1);
  expect(mainReward(true, 1, a)).toBeCloseTo(1);
});

test("eq 5 by hand: 0.1 + 0.4*1 + 0.5*0.6 = 0.8, and 0.4 less if the caller is wrong", () => {
  expect(subReward(true, 1, 0.6, b)).toBeCloseTo(0.8);
  expect(subReward(true, 0, 0.6, b)).toBeCloseTo(0.4);
});

test("a malformed conversation has reward 0, whatever its other scores", () => {
  fc.assert(
    fc.property(score, score, (correct, expert) => {
      expect(mainReward(false, correct, a)).toBe(0);
      expect(subReward(false, correct, expert, b)).toBe(0);
    }),
  );
});

test("what a caller passes on is eq 5 without the format term: the mean of its scores weighted by b2 and b3, and 0 if malformed", () => {
  // (0.4*1 + 0.5*0.1) / 0.9 = 0.5
  expect(callerCorrect(true, 1, 0.1, b)).toBeCloseTo(0.5, 12);
  expect(callerCorrect(false, 1, 1, b)).toBe(0);
  expect(callerCorrect(true, 0.7, 1, { format: 1, correct: 0, expert: 0 })).toBe(0.7);
  fc.assert(
    fc.property(score, score, (correct, expert) => {
      const passed = callerCorrect(true, correct, expert, b);
      expect(subReward(true, correct, expert, b)).toBeCloseTo(b.format + (b.correct + b.expert) * passed, 12);
      expect(callerCorrect(true, correct, correct, b)).toBeCloseTo(correct, 12);
    }),
  );
});

test("rewards are in [0, 1], and never fall when a score rises", () => {
  fc.assert(
    fc.property(score, score, score, (x, y, expert) => {
      const [low, high] = x < y ? [x, y] : [y, x];
      expect(mainReward(true, low, a)).toBeLessThanOrEqual(mainReward(true, high, a));
      expect(subReward(true, low, expert, b)).toBeLessThanOrEqual(subReward(true, high, expert, b));
      expect(subReward(true, expert, low, b)).toBeLessThanOrEqual(subReward(true, expert, high, b));
      for (const reward of [mainReward(true, high, a), subReward(true, high, expert, b)]) {
        expect(reward).toBeGreaterThanOrEqual(0);
        expect(reward).toBeLessThanOrEqual(1 + 1e-12);
      }
    }),
  );
});

test.each([
  // DAPO eq 13 at 20 tokens, of which the last 5 are the buffer.
  [10, 0],
  [15, 0],
  [16, -0.2],
  [18, -0.6],
  [20, -1],
  [25, -1],
])("overlong penalty at %d of 20 tokens: %d; twice that at factor 2", (tokens, penalty) => {
  expect(overlongPenalty(tokens, 20, { bufferTokens: 5, factor: 1 })).toBeCloseTo(penalty, 12);
  expect(overlongPenalty(tokens, 20, { bufferTokens: 5, factor: 2 })).toBeCloseTo(2 * penalty, 12);
});

test("up to the buffer the penalty is exactly 0, which adds nothing to a reward", () => {
  for (const tokens of [1, 14, 15]) expect(overlongPenalty(tokens, 20, { bufferTokens: 5, factor: 1 })).toBe(0);
});
