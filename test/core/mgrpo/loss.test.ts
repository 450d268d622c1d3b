/** @file The clipped objective: its gradient against central differences for every combination of ratio, KL, TIS and mask, and each by hand. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isClippedTokenLoss, type LossOptions, type LossTrajectory, trajectoryLoss } from "../../../core/mgrpo/loss.ts";

const plain: LossOptions = {
  policyLoss: { kind: "clip" },
  ratio: "token",
  clipLow: 0.2,
  clipHigh: 0.28,
  kl: { coefficient: 0, estimator: "k3" },
  tisCap: null,
  ratioMask: null,
};

const OPTIONS: LossOptions[] = (["token", "sequence", "sequence-mean"] as const).flatMap((ratio) =>
  [
    { coefficient: 0, estimator: "k3" as const },
    ...(["k1", "k2", "k3"] as const).map((estimator) => ({ coefficient: 0.3, estimator })),
  ].flatMap((kl) =>
    [null, 1.1].flatMap((tisCap) =>
      [null, { low: 0.8, high: 1.3 }].map((ratioMask) => ({ ...plain, ratio, kl, tisCap, ratioMask })),
    ),
  ),
);

/** A trajectory whose four policies differ by up to +-0.6 in log-prob: some tokens are clipped, masked and truncated, some are not. */
const trajectory = fc
  .array(fc.record({ current: near(), behavior: near(), proximal: near(), reference: near() }), {
    minLength: 1,
    maxLength: 6,
  })
  .chain((tokens_A) =>
    fc.record({
      advantage: fc.constantFrom(-1.5, -0.4, 0, 0.7, 2),
      tokenWeight: fc.constant(0.37),
      current_A: fc.constant(tokens_A.map(({ current }) => current)),
      behavior_A: fc.constant(tokens_A.map(({ behavior }) => behavior)),
      proximal_A: fc.constant(tokens_A.map(({ proximal }) => proximal)),
      reference_A: fc.constant(tokens_A.map(({ reference }) => reference)),
    }),
  );

function near() {
  return fc.integer({ min: -600, max: 600 }).map((n) => -2 + n / 1000 / 2);
}

const nudge = (given: LossTrajectory, a: number, by: number): LossTrajectory => ({
  ...given,
  current_A: Array.from(given.current_A, (value, i) => (i === a ? value + by : value)),
});

test.each(OPTIONS.map((options) => [JSON.stringify(options), options] as const))(
  "the gradient equals central differences: %s",
  (_name, options) => {
    const h = 1e-6;
    fc.assert(
      fc.property(trajectory, (given) => {
        const { gradient_A } = trajectoryLoss(given, options);
        gradient_A.forEach((gradient, a) => {
          const [up, down] = [
            trajectoryLoss(nudge(given, a, h), options),
            trajectoryLoss(nudge(given, a, -h), options),
          ];
          // At a kink or a mask's edge, where the gradients of the two sides differ, there is no derivative: such a case is discarded.
          fc.pre(smooth(up.gradient_A, gradient_A) && smooth(down.gradient_A, gradient_A));
          expect(gradient).toBeCloseTo((up.loss - down.loss) / (2 * h), 6);
        });
      }),
      { numRuns: 60 },
    );
  },
);

function smooth(one: readonly number[], other: readonly number[]): boolean {
  return one.every((gradient, a) => Math.abs(gradient - (other[a] ?? Number.NaN)) < 1e-4);
}

const trajectoryOf = (given: Partial<LossTrajectory> & { ratios: number[]; advantage: number }): LossTrajectory => ({
  tokenWeight: 1,
  current_A: given.ratios.map((ratio) => Math.log(ratio) - 1),
  behavior_A: given.ratios.map(() => -1),
  proximal_A: given.ratios.map(() => -1),
  reference_A: given.ratios.map(() => -1),
  ...given,
});

describe("the clip is pessimistic: it only limits changes that the advantage favors", () => {
  test.each([
    // advantage, ratio, loss, clipped
    [1, 1.5, -1.28, 1],
    [1, 0.5, -0.5, 0],
    [-1, 0.5, 0.8, 1],
    [-1, 1.5, 1.5, 0],
    [1, 1.25, -1.25, 0],
  ])("A = %d, ratio %d: loss %d, clipped %d", (advantage, ratio, loss, clipped) => {
    const result = trajectoryLoss(trajectoryOf({ advantage, ratios: [ratio] }), plain);
    expect(result.loss).toBeCloseTo(loss, 12);
    expect(result.clipped).toBe(clipped);
    expect(result.gradient_A[0]).toBeCloseTo(clipped ? 0 : -ratio * advantage, 12);
  });
});

test("on policy, a token's gradient is -A*w under token and sequence-mean ratios, and n times that under the sequence ratio of n tokens", () => {
  // A = 2, n = 4 equal tokens, w = 1/4 each (trajectory-mean): -2/4 = -0.5; sequence: all n terms -w*r*A depend on each token: -2/4 * 4 = -2
  const gradient = (ratio: LossOptions["ratio"]) =>
    trajectoryLoss(trajectoryOf({ advantage: 2, ratios: [1, 1, 1, 1], tokenWeight: 0.25 }), { ...plain, ratio })
      .gradient_A;
  expect(gradient("token")).toEqual([-0.5, -0.5, -0.5, -0.5]);
  expect(gradient("sequence-mean")).toEqual([-0.5, -0.5, -0.5, -0.5]);
  expect(gradient("sequence")).toEqual([-2, -2, -2, -2]);
});

test("sequence ratios by hand: product 1.2*1.2 = 1.44 is clipped, geometric mean 1.2 is not", () => {
  const at = (ratio: LossOptions["ratio"]) =>
    trajectoryLoss(trajectoryOf({ advantage: 1, ratios: [1.2, 1.2], tokenWeight: 0.5 }), { ...plain, ratio });
  expect(at("sequence").loss).toBeCloseTo(-1.28, 12);
  expect(at("sequence").clipped).toBe(2);
  expect(at("sequence-mean").loss).toBeCloseTo(-1.2, 12);
  expect(at("sequence-mean").clipped).toBe(0);
});

test("TIS: at ratio 1 the gradient is -min(proximal/behavior, cap) * A, and the ratio is to the proximal policy", () => {
  const given = trajectoryOf({ advantage: 1, ratios: [1, 1] });
  const shifted = { ...given, behavior_A: [-1 - Math.log(1.5), -1 - Math.log(5)] };
  const { gradient_A, clipped, truncated, masked } = trajectoryLoss(shifted, { ...plain, tisCap: 2 });
  expect(gradient_A[0]).toBeCloseTo(-1.5, 12);
  expect(gradient_A[1]).toBeCloseTo(-2, 12);
  // Only the second weight, 5, is truncated.
  expect([clipped, truncated, masked]).toEqual([0, 1, 0]);
});

test("a masked token is not counted as truncated: it has no policy term", () => {
  const given = trajectoryOf({ advantage: 1, ratios: [1, 1] });
  // Importance weights 5 and 1.5, both above the cap; the mask removes the first.
  const shifted = { ...given, behavior_A: [-1 - Math.log(5), -1 - Math.log(1.5)] };
  const { masked, truncated } = trajectoryLoss(shifted, { ...plain, tisCap: 1.2, ratioMask: { low: 0.5, high: 2 } });
  expect([masked, truncated]).toEqual([1, 1]);
});

test("under TIS the mask still uses the ratio to the behavior policy, the sampler's, not to the proximal one", () => {
  const masked = { ...plain, tisCap: 10, ratioMask: { low: 0.5, high: 2 } };
  const given = trajectoryOf({ advantage: 1, ratios: [1, 1] });
  // The trainer has not moved (ratio 1 to the proximal policy), but the sampler gave the second token a third of the trainer's probability.
  const far = trajectoryLoss({ ...given, behavior_A: [-1, -1 - Math.log(3)] }, masked);
  expect(far.gradient_A).toEqual([-1, 0]);
  expect(far.loss).toBeCloseTo(-1, 12);
  // The reverse: the trainer has moved by a factor of 3 since the proximal policy, back to where the sampler was.
  // The token is kept, and its ratio is clipped.
  const moved = trajectoryLoss({ ...given, proximal_A: [-1, -1 - Math.log(3)] }, masked);
  // v = exp(proximal - behavior) = 1/3, r = 3 is clipped at 1.28.
  expect(moved.clipped).toBe(1);
  expect(moved.loss).toBeCloseTo(-1 - 1.28 / 3, 12);
});

test("a masked token has no policy loss and no gradient from it, and does not count in a sequence's ratio", () => {
  const ratioMask = { low: 0.5, high: 2 };
  const byToken = trajectoryLoss(trajectoryOf({ advantage: 1, ratios: [1.1, 7, 0.1] }), { ...plain, ratioMask });
  expect(byToken.loss).toBeCloseTo(-1.1, 12);
  expect(byToken.gradient_A.slice(1)).toEqual([0, 0]);
  expect([byToken.masked, byToken.truncated]).toEqual([2, 0]);
  const bySequence = trajectoryLoss(trajectoryOf({ advantage: 1, ratios: [1.1, 7, 1.1] }), {
    ...plain,
    ratio: "sequence",
    ratioMask,
  });
  expect(bySequence.loss).toBeCloseTo(-2 * 1.21, 12);
  expect(bySequence.gradient_A[1]).toBe(0);
  const nothingLeft = trajectoryLoss(trajectoryOf({ advantage: 1, ratios: [9, 9] }), {
    ...plain,
    ratio: "sequence-mean",
    ratioMask,
  });
  expect([nothingLeft.loss, ...nothingLeft.gradient_A]).toEqual([0, 0, 0]);
});

test("the KL terms k2 and k3 are never negative, have value and gradient 0 at the reference, and do not depend on the advantage", () => {
  for (const estimator of ["k2", "k3"] as const) {
    const options = { ...plain, kl: { coefficient: 1, estimator } };
    const there = trajectoryLoss(trajectoryOf({ advantage: 0, ratios: [1, 1] }), options);
    expect([there.loss, ...there.gradient_A].map(Math.abs)).toEqual([0, 0, 0]);
    fc.assert(
      fc.property(trajectory, (given) => {
        const kl = trajectoryLoss({ ...given, advantage: 0 }, options);
        expect(kl.loss).toBeGreaterThanOrEqual(0);
        const [withKl, without] = [trajectoryLoss(given, options), trajectoryLoss(given, plain)];
        expect(withKl.loss - without.loss).toBeCloseTo(kl.loss, 12);
        withKl.gradient_A.forEach((gradient, a) => {
          expect(gradient - (without.gradient_A[a] ?? Number.NaN)).toBeCloseTo(kl.gradient_A[a] ?? Number.NaN, 12);
        });
      }),
    );
  }
  // A token twice as likely as under the reference: x = ln 2; k1 = 0.693147, k2 = 0.240227, k3 = 1/2 - 1 + 0.693147 = 0.193147
  for (const [estimator, value] of [
    ["k1", Math.LN2],
    ["k2", 0.240227],
    ["k3", 0.193147],
  ] as const) {
    const options = { ...plain, kl: { coefficient: 1, estimator } };
    expect(trajectoryLoss(trajectoryOf({ advantage: 0, ratios: [2] }), options).loss).toBeCloseTo(value, 6);
  }
});

test("advantage 0 without KL: no loss and no gradient, even if a product of ratios overflows", () => {
  fc.assert(
    fc.property(trajectory, fc.constantFrom(...OPTIONS.filter(({ kl }) => kl.coefficient === 0)), (given, options) => {
      const { loss, gradient_A, clipped } = trajectoryLoss({ ...given, advantage: 0 }, options);
      expect([loss, clipped, ...gradient_A].every((value) => value === 0)).toBe(true);
    }),
  );
  const far = { ...trajectoryOf({ advantage: 0, ratios: [1, 1] }), current_A: [0, 0], behavior_A: [-400, -400] };
  expect(trajectoryLoss(far, { ...plain, ratio: "sequence" }).gradient_A.every((value) => value === 0)).toBe(true);
  const favored = trajectoryLoss({ ...far, advantage: 1 }, { ...plain, ratio: "sequence" });
  expect([favored.loss, ...favored.gradient_A]).toEqual([-2.56, 0, 0]);
});

test("isClippedTokenLoss is true only for the plain token objective, which one pass can compute", () => {
  expect(isClippedTokenLoss(plain)).toBe(true);
  expect(OPTIONS.filter(isClippedTokenLoss)).toEqual([plain]);
  expect(isClippedTokenLoss({ ...plain, entropy: null })).toBe(true);
  expect(isClippedTokenLoss({ ...plain, entropy: { start: 0.01, end: 0 } })).toBe(false);
  expect(isClippedTokenLoss({ ...plain, policyLoss: { kind: "dual-clip", c: 3 } })).toBe(false);
  expect(isClippedTokenLoss({ ...plain, policyLoss: { kind: "cispo" } })).toBe(false);
});

test("the bounds of the ratio mask are inclusive", () => {
  const given = trajectoryOf({ advantage: 1, ratios: [1, 1] });
  const { gradient_A } = trajectoryLoss(given, { ...plain, ratioMask: { low: 1, high: 5 } });
  expect(gradient_A).toEqual(trajectoryLoss(given, plain).gradient_A);
  expect(trajectoryLoss(given, { ...plain, ratioMask: { low: 0.1, high: 1 } }).gradient_A).toEqual(gradient_A);
});

test("a sequence's mean ratio is over the tokens that the mask keeps", () => {
  // Log-ratios 0.2, 0.1 and a masked 3: the mean of the first two is 0.15.
  const [current_A, behavior_A] = [
    [-1, -1, -1],
    [-1.2, -1.1, -4],
  ];
  const given = { advantage: 1, tokenWeight: 1, current_A, behavior_A, proximal_A: [], reference_A: [] };
  const options: LossOptions = { ...plain, ratio: "sequence-mean", ratioMask: { low: 0.5, high: 2 } };
  const { loss, gradient_A } = trajectoryLoss(given, options);
  // Two kept tokens of weight 1 have the ratio exp(0.15); each takes half of the derivative of the sum.
  expect(loss).toBeCloseTo(-2 * Math.exp(0.15), 12);
  expect(gradient_A).toEqual([-Math.exp(0.15), -Math.exp(0.15), 0].map((value) => expect.closeTo(value, 12)));
});
