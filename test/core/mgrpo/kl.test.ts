/** @file The KL penalty in the reward: by hand, and its gradient against the KL divergence's own, by central differences. */
import { expect, test } from "vitest";
import { klToGo_A } from "../../../core/mgrpo/kl.ts";
import { type LossOptions, trajectoryLoss } from "../../../core/mgrpo/loss.ts";

test("each token is penalized for itself and for all later tokens", () => {
  // k1: -1 - -1.5 = 0.5, -2 - -1 = -1, -0.5 - -2.5 = 2; times 0.1: 0.05, -0.1, 0.2; from the end 0.2, 0.1, 0.15
  const toGo = klToGo_A([-1, -2, -0.5], [-1.5, -1, -2.5], 0.1);
  [0.15, 0.1, 0.2].forEach((value, a) => {
    expect(toGo[a]).toBeCloseTo(value, 12);
  });
});

/** log p of each of two tokens of a sequence over {0, 1}; the second depends on the first: parameters are three logits. */
function logProbs(theta: readonly number[], [first = 0, second = 0]: readonly number[]): number[] {
  const of = (logit: number, token: number) => -Math.log1p(Math.exp(token === 1 ? -logit : logit));
  return [of(theta[0] ?? 0, first), of(theta[1 + first] ?? 0, second)];
}

const SEQUENCES = [
  [0, 0],
  [0, 1],
  [1, 0],
  [1, 1],
];
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const THETA = [0.3, -0.8, 1.1];
const REFERENCE = [-0.5, 0.4, 0.2];

/** KL(theta || reference) of whole sequences. */
const divergence = (theta: readonly number[]): number =>
  sum(
    SEQUENCES.map((y) => {
      const [own, other] = [sum(logProbs(theta, y)), sum(logProbs(REFERENCE, y))];
      return Math.exp(own) * (own - other);
    }),
  );

const nudged = (i: number, by: number) => THETA.map((value, j) => (i === j ? value + by : value));
const options: LossOptions = {
  policyLoss: { kind: "clip" },
  ratio: "token",
  clipLow: 0.2,
  clipHigh: 0.28,
  tisCap: null,
  ratioMask: null,
  kl: { coefficient: 0.7, estimator: "k1", in: "reward" },
};

test("the expected gradient of the loss is the coefficient times that of the KL divergence", () => {
  const h = 1e-6;
  THETA.forEach((_, i) => {
    const expected = (divergence(nudged(i, h)) - divergence(nudged(i, -h))) / (2 * h);
    const found = sum(
      SEQUENCES.map((y) => {
        const [current_A, reference_A] = [logProbs(THETA, y), logProbs(REFERENCE, y)];
        const offsets_A = klToGo_A(current_A, reference_A, options.kl.coefficient).map((penalty) => -penalty);
        const given = { advantage: 0, offsets_A, tokenWeight: 1, current_A, reference_A };
        const { gradient_A } = trajectoryLoss({ ...given, behavior_A: current_A, proximal_A: current_A }, options);
        const [up, down] = [logProbs(nudged(i, h), y), logProbs(nudged(i, -h), y)];
        const slope = gradient_A.map((g, a) => (g * ((up[a] ?? 0) - (down[a] ?? 0))) / (2 * h));
        return Math.exp(sum(current_A)) * sum(slope);
      }),
    );
    expect(Math.abs(expected)).toBeGreaterThan(0.01);
    expect(found).toBeCloseTo(options.kl.coefficient * expected, 7);
  });
});

test("with KL in the reward, the loss has no KL term of its own", () => {
  const given = {
    advantage: 0,
    tokenWeight: 1,
    current_A: [-1],
    behavior_A: [-1],
    proximal_A: [-1],
    reference_A: [-3],
  };
  expect(trajectoryLoss(given, options)).toMatchObject({ loss: 0, gradient_A: [0] });
  expect(trajectoryLoss(given, { ...options, kl: { ...options.kl, in: "loss" } }).loss).toBeCloseTo(1.4, 12);
});
