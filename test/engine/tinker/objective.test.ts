/** @file The losses that the Tinker engine computes itself: their derivatives with respect to log-probs equal central differences. */
import { expect, test } from "vitest";
import type { Loss, TrainingSequence } from "../../../core/ports.ts";
import { objectiveOf } from "../../../engine/tinker/objective.ts";

const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };
/**
 * Below, within and above the clip range, each with a positive and a negative advantage. Two more tokens are masked: the first, which nothing
 * predicts, and the last, whose weight is 0.
 */
const RATIOS = [1, 0.7, 0.7, 0.9, 0.9, 1.2, 1.2, 1.4, 1.4, 1];
const BEHAVIOR = RATIOS.map((_, t) => -1 - t / 10);
const LOG_PROBS = RATIOS.map((ratio, t) => (BEHAVIOR[t] ?? 0) + Math.log(ratio));
const SEQUENCE: TrainingSequence = {
  tokens: RATIOS.map((_, t) => t),
  weights_T: Float32Array.from(RATIOS, (_, t) => (t === 9 ? 0 : 0.5 + t / 4)),
  advantages_T: Float32Array.from(RATIOS, (_, t) => (t % 2 ? 1.5 : -0.5)),
  behaviorLogProbs_T: Float32Array.from(BEHAVIOR),
};

test.each<Loss>([CLIPPED, { kind: "linear" }])(
  "the gradient of $kind equals central differences of its loss",
  (loss) => {
    const { gradient_T } = objectiveOf(SEQUENCE, LOG_PROBS, loss);
    const lossAt = (t: number, by: number) =>
      objectiveOf(
        SEQUENCE,
        LOG_PROBS.map((value, i) => (i === t ? value + by : value)),
        loss,
      ).loss;
    const slopes = LOG_PROBS.map((_, t) => (lossAt(t, 1e-4) - lossAt(t, -1e-4)) / 2e-4);
    expect([...gradient_T]).toEqual(slopes.map((slope) => expect.closeTo(slope, 5)));
  },
);

test("a clipped token has no gradient: one above the range with a positive advantage, one below with a negative", () => {
  const { gradient_T } = objectiveOf(SEQUENCE, LOG_PROBS, CLIPPED);
  const without = [...gradient_T.keys()].filter((t) => gradient_T[t] === 0);
  // Token 2 has ratio 0.7 and a negative advantage, token 7 ratio 1.4 and a positive one. Tokens 0 and 9 are masked.
  expect(without).toEqual([0, 2, 7, 9]);
});
