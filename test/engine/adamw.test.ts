/** @file AdamW against a case worked by hand. */
import { expect, test } from "vitest";
import { adamStep, freshAdamState } from "../../engine/model/adamw.ts";

const CONFIG = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.5, maxGradientNorm: 1 };

test("two steps by hand, the first clipped", () => {
  const weights = Float32Array.of(1, -2);
  const state = freshAdamState(2);
  // |(3, -4)| = 5, clipped to norm 1: g = (0.6, -0.8). m = 0.1 g, v = 0.01 g^2; both corrections give back g and g^2:
  // w = w - 0.1 (g/|g| + 0.5 w) = (1 - 0.1 - 0.05, -2 + 0.1 + 0.1)
  expect(adamStep(weights, Float32Array.of(3, -4), state, CONFIG)).toBe(5);
  expect(weights[0]).toBeCloseTo(0.85, 6);
  expect(weights[1]).toBeCloseTo(-1.8, 6);
  // g = (0.6, 0): m = (0.054 + 0.06, -0.072) = (0.114, -0.072), v = (0.003564 + 0.0036, 0.006336) = (0.007164, 0.006336)
  // corrections 1 - 0.81 = 0.19 and 1 - 0.9801 = 0.0199
  // update = (0.6 / sqrt(0.36), -0.378947.. / sqrt(0.318392..)) = (1, -0.671588..)
  // w = (0.85 - 0.1 (1 + 0.425), -1.8 - 0.1 (-0.671588 - 0.9))
  expect(adamStep(weights, Float32Array.of(0.6, 0), state, CONFIG)).toBeCloseTo(0.6, 6);
  expect(weights[0]).toBeCloseTo(0.7075, 5);
  expect(weights[1]).toBeCloseTo(-1.6428412, 5);
  expect(state.step).toBe(2);
});
