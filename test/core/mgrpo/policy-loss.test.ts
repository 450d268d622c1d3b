/** @file The forms of the policy term: cases by hand, and derivatives against central differences. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type LossOptions, type LossTrajectory, trajectoryLoss } from "../../../core/mgrpo/loss.ts";
import { policyTerm } from "../../../core/mgrpo/policy-loss.ts";

const CLIP = { policyLoss: { kind: "clip" }, clipLow: 0.2, clipHigh: 0.28 } as const;
const DUAL = { ...CLIP, policyLoss: { kind: "dual-clip", c: 3 } } as const;
const CISPO = { ...CLIP, policyLoss: { kind: "cispo" } } as const;

test.each([
  // A = -1: the term is -max(min(-r, -clip(r)), -3). r = 2: min(-2, -1.28) = -2, above -3, so the loss is 2 and dLoss/dr = 1.
  [-1, 2, 2, 1, false],
  // r = 5: min(-5, -1.28) = -5 is below the bound, -3: the loss is 3, a constant.
  [-1, 5, 3, 0, true],
  // r = 0.5: min(-0.5, -0.8) = -0.8: clipped as without the bound.
  [-1, 0.5, 0.8, 0, true],
  // A = 2 has no second bound. r = 5: min(10, 2.56).
  [2, 5, -2.56, 0, true],
  [2, 0.5, -1, -2, false],
])("dual-clip by hand: A = %d, r = %d: loss %d, dLoss/dr %d, clipped %s", (advantage, r, loss, byRatio, clipped) => {
  const term = policyTerm(r, -1, advantage, 1, DUAL);
  expect(term.loss).toBeCloseTo(loss, 12);
  expect(term).toMatchObject({ byRatio, clipped, byLogProb: 0 });
});

test.each([
  // log p = -1.5, weight 0.5: loss = -0.5 * clip(r) * A * -1.5, dLoss/dlogProb = -0.5 * clip(r) * A.
  [1, 1, 0.75, -0.5, false],
  // r = 2 is limited to 1.28: 0.5 * 1.28 * 1.5. Its gradient is not 0, unlike under the plain clip.
  [1, 2, 0.96, -0.64, true],
  [-2, 2, -1.92, 1.28, true],
  [1, 0.1, 0.6, -0.4, true],
])(
  "cispo by hand: A = %d, r = %d: loss %d, dLoss/dlogProb %d, clipped %s",
  (advantage, r, loss, byLogProb, clipped) => {
    const term = policyTerm(r, -1.5, advantage, 0.5, CISPO);
    expect(term.loss).toBeCloseTo(loss, 12);
    expect(term.byLogProb).toBeCloseTo(byLogProb, 12);
    expect(term).toMatchObject({ byRatio: 0, clipped });
  },
);

test("cispo without a lower bound: clipLow 1 leaves ratios below 1 unchanged", () => {
  expect(policyTerm(0.1, -1, 1, 1, { ...CISPO, clipLow: 1 })).toMatchObject({ byLogProb: -0.1, clipped: false });
});

test("dual-clip equals clip unless the advantage is negative and the ratio is above c", () => {
  const ratio = fc.integer({ min: 1, max: 900 }).map((n) => n / 100);
  fc.assert(
    fc.property(ratio, fc.constantFrom(-2, -0.3, 0, 0.4, 1), (r, advantage) => {
      const [dual, plain] = [policyTerm(r, -1, advantage, 1, DUAL), policyTerm(r, -1, advantage, 1, CLIP)];
      if (advantage < 0 && r > 3) expect(dual.loss).toBeLessThan(plain.loss);
      else expect(dual).toEqual(plain);
    }),
  );
});

test("an advantage of 0 gives exactly 0, unclipped, even if the ratio has overflowed", () => {
  for (const form of [CLIP, DUAL, CISPO]) {
    for (const r of [1, 2, Number.POSITIVE_INFINITY]) {
      const term = policyTerm(r, -1, 0, 1, form);
      expect(term.clipped).toBe(false);
      for (const zero of [term.loss, term.byRatio, term.byLogProb]) expect(zero + 0).toBe(0);
    }
  }
});

test("dual-clip: a token exactly at the bound keeps its gradient", () => {
  expect(policyTerm(3, -1, -1, 1, DUAL)).toEqual({ loss: 3, byRatio: 1, byLogProb: 0, clipped: false });
});

test("cispo: a masked token has no gradient", () => {
  const given = {
    advantage: 1,
    tokenWeight: 1,
    current_A: [-1, -1],
    behavior_A: [-1, -4],
    proximal_A: [],
    reference_A: [],
  };
  const kl = { coefficient: 0, estimator: "k3" } as const;
  const options: LossOptions = { ...CISPO, ratio: "token", tisCap: null, kl, ratioMask: { low: 0.5, high: 2 } };
  expect(trajectoryLoss(given, options)).toMatchObject({ gradient_A: [-1, 0], clipped: 0 });
});

const OPTIONS: LossOptions[] = [DUAL, CISPO].flatMap((form) =>
  [null, 1.5].flatMap((tisCap) =>
    [null, { low: 0.3, high: 4.5 }].flatMap((ratioMask) =>
      [0, 0.3].map((coefficient) => ({
        ...form,
        ratio: "token" as const,
        tisCap,
        ratioMask,
        kl: { coefficient, estimator: "k3" as const },
      })),
    ),
  ),
);

const nudge = (given: LossTrajectory, a: number, by: number): LossTrajectory => ({
  ...given,
  current_A: Array.from(given.current_A, (value, i) => (i === a ? value + by : value)),
});

/** Holds cispo's weight constant for the central difference: the anchor is nudged with the log-prob, so that the ratio keeps its value. */
function held(given: LossTrajectory, a: number, by: number, { policyLoss, tisCap }: LossOptions): LossTrajectory {
  const moved = nudge(given, a, by);
  if (policyLoss.kind !== "cispo") return moved;
  const shift = (values_A: ArrayLike<number>) => Array.from(values_A, (value, i) => (i === a ? value + by : value));
  // Under TIS the anchor is the proximal policy; behavior follows too, so that v and the mask keep their values.
  return {
    ...moved,
    behavior_A: shift(given.behavior_A),
    proximal_A: tisCap === null ? given.proximal_A : shift(given.proximal_A),
  };
}

test.each(OPTIONS.map((options) => [JSON.stringify(options), options] as const))(
  "the gradient equals central differences: %s",
  (_name, options) => {
    const h = 1e-6;
    const near = () => fc.integer({ min: -900, max: 900 }).map((n) => -2 + n / 1000);
    const tokens = fc.array(fc.tuple(near(), near(), near(), near()), { minLength: 1, maxLength: 5 });
    const ofColumn = (rows: readonly (readonly number[])[], i: number) => rows.map((row) => row[i] ?? Number.NaN);
    fc.assert(
      fc.property(tokens, fc.constantFrom(-1.5, -0.4, 0.7, 2), (rows, advantage) => {
        const given: LossTrajectory = {
          advantage,
          tokenWeight: 0.37,
          current_A: ofColumn(rows, 0),
          behavior_A: ofColumn(rows, 1),
          proximal_A: ofColumn(rows, 2),
          reference_A: ofColumn(rows, 3),
        };
        const { gradient_A } = trajectoryLoss(given, options);
        gradient_A.forEach((gradient, a) => {
          const [up, down] = [h, -h].map((by) => trajectoryLoss(held(given, a, by, options), options));
          if (!up || !down) throw new Error("unreachable");
          // At a kink there is no derivative.
          fc.pre(
            Math.abs((up.gradient_A[a] ?? 0) - gradient) < 1e-4 &&
              Math.abs((down.gradient_A[a] ?? 0) - gradient) < 1e-4,
          );
          expect(gradient).toBeCloseTo((up.loss - down.loss) / (2 * h), 6);
        });
      }),
      { numRuns: 60 },
    );
  },
);

test("on policy every form has the same gradient", () => {
  const given = {
    advantage: -0.7,
    tokenWeight: 0.25,
    current_A: [-1, -2],
    behavior_A: [-1, -2],
    proximal_A: [],
    reference_A: [],
  };
  const rest = { ratio: "token", tisCap: null, ratioMask: null, kl: { coefficient: 0, estimator: "k3" } } as const;
  const gradients = [CLIP, DUAL, CISPO].map((form) => trajectoryLoss(given, { ...form, ...rest }).gradient_A);
  for (const gradient of gradients) expect(gradient).toEqual([0.175, 0.175]);
});
