/** @file Which terms of the loss share a prediction, and which tokens read it. */
import { expect, test } from "vitest";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import {
  EVERY_PREDICTION,
  lossVectors,
  predictions,
  scatterLogProbs,
  weightedPredictions,
} from "../../engine/model/predictions.ts";
import { prefixTree } from "../../engine/model/prefix-tree.ts";

const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };

const sequenceOf = (advantage: number, behavior = -1, weight = 0.25): TrainingSequence => ({
  tokens: [1, 2, 3],
  weights_T: Float32Array.of(0, weight, weight),
  advantages_T: new Float32Array(3).fill(advantage),
  behaviorLogProbs_T: new Float32Array(3).fill(behavior),
});
const predictionsOf = (batch: readonly TrainingSequence[], loss: Loss) => {
  const tokens = batch.map((one) => one.tokens);
  const { nodes } = prefixTree(tokens);
  const members = batch.map((_, i) => i);
  return predictions(members, tokens, (i, t) => nodes[i]?.[t] ?? 0, weightedPredictions(batch, loss));
};

test("clipped terms share a prediction if their ratios are equal and their advantages have the same sign; linear terms always do", () => {
  const batch = [sequenceOf(1), sequenceOf(2, -1, 0.75), sequenceOf(-1), sequenceOf(-3), sequenceOf(1, -1.0000001)];
  const clipped = predictionsOf(batch, CLIPPED);
  expect(clipped.row).toHaveLength(3 * 2);
  // 0.25 * 1 + 0.75 * 2 = 1 * 1.75; 0.25 * -1 + 0.25 * -3 = 0.5 * -2
  const { clippedWeights, advantages, linearWeights } = lossVectors(clipped, batch, CLIPPED);
  expect(Array.from(clippedWeights)).toEqual([1, 1, 0.5, 0.5, 0.25, 0.25]);
  expect(Array.from(advantages)).toEqual([1.75, 1.75, -2, -2, 1, 1]);
  expect(linearWeights.every((weight) => weight === 0)).toBe(true);
  const linear = predictionsOf(batch, { kind: "linear" });
  expect(linear.row).toHaveLength(2);
  // 0.25 + 0.75 + 0.25 + 0.25 + 0.25
  expect(Array.from(lossVectors(linear, batch, { kind: "linear" }).linearWeights)).toEqual([1.75, 1.75]);
});

test("clipped terms whose weights have opposite signs do not share a prediction: their sum may be 0, or change an advantage's sign", () => {
  // -0.5 * min(r * 1, clip(r) * 1) + 0.5 * min(r * 3, clip(r) * 3) = min(r, clip(r)), but the weights add up to 0: no term of weight 0 equals this.
  const batch = [sequenceOf(1, -1, -0.5), sequenceOf(3, -1, 0.5)];
  const { clippedWeights, advantages } = lossVectors(predictionsOf(batch, CLIPPED), batch, CLIPPED);
  expect(Array.from(clippedWeights)).toEqual([-0.5, -0.5, 0.5, 0.5]);
  expect(Array.from(advantages)).toEqual([1, 1, 3, 3]);
});

test("entropy weights count only in linear-entropy: in a clipped loss, two masked tokens would share a prediction with the advantage 0 / 0", () => {
  const masked = { ...sequenceOf(1, -1, 0), entropyWeights_T: Float32Array.of(0, 1, 1) };
  for (const loss of [CLIPPED, { kind: "linear" } as const]) {
    expect(predictionsOf([masked, masked], loss).member).toHaveLength(0);
  }
  expect(predictionsOf([masked, masked], { kind: "linear-entropy" }).member).toHaveLength(4);
});

test("the next tokens after a shared prefix are predicted from one row, and each log-prob reaches all of its readers", () => {
  const tokens = [
    [1, 2, 3],
    [1, 2, 3],
    [1, 2, 4],
  ];
  const { nodes } = prefixTree(tokens);
  const all = predictions([0, 1, 2], tokens, (i, t) => nodes[i]?.[t] ?? 0, EVERY_PREDICTION);
  expect([Array.from(all.row), Array.from(all.targets)]).toEqual([
    [0, 1, 1],
    [2, 3, 4],
  ]);
  const found = tokens.map(() => new Float32Array(3));
  scatterLogProbs(found, all, Float32Array.of(-1, -2, -3));
  expect(found.map((row) => Array.from(row))).toEqual([
    [0, -1, -2],
    [0, -1, -2],
    [0, -1, -3],
  ]);
});

test("tokens of weight 0 are not predicted, and the padding has no readers", () => {
  const { row, offsets, member } = predictionsOf([sequenceOf(1, -1, 0)], CLIPPED);
  expect([Array.from(row), Array.from(offsets), member.length]).toEqual([[0, 0], [0, 0, 0], 0]);
});
