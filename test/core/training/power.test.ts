/** @file The difference that a comparison can detect: variance components worked by hand, and power against simulations of the interval. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Random, stream } from "../../../core/random.ts";
import { differenceEstimate, differenceTable, type Tallies_SQ } from "../../../core/training/bootstrap.ts";
import { detectableDifference, type VarianceComponents, varianceComponents } from "../../../core/training/power.ts";

test("by hand: the variance components of two seeds and four questions", () => {
  // Seed means 0.3 and 0.1, question means 0.4, 0.2, 0.2, 0, mean 0.2.
  //   MS_seeds      4 * (0.01 + 0.01) / 1 = 0.08
  //   MS_questions  2 * (0.04 + 0 + 0 + 0.04) / 3 = 0.16 / 3
  //   residuals     0.6-0.3-0.4+0.2 = 0.1, -0.1, -0.1, 0.1, and the same with the other sign: MS_noise 8 * 0.01 / 3 = 0.08 / 3
  const table = [
    [0.6, 0.2, 0.2, 0.2],
    [0.2, 0.2, 0.2, -0.2],
  ];
  const { seed, question, noise } = varianceComponents(table);
  expect(noise).toBeCloseTo(0.08 / 3, 12);
  expect(seed).toBeCloseTo((0.08 - 0.08 / 3) / 4, 12);
  expect(question).toBeCloseTo((0.16 / 3 - 0.08 / 3) / 2, 12);
});

test("by hand: variance components that would be negative are 0", () => {
  // All means are 0, and the residuals are the values: MS_noise = 8 * 1 / 3.
  const parts = varianceComponents([
    [1, -1, 1, -1],
    [-1, 1, -1, 1],
  ]);
  expect(parts).toEqual({ seed: 0, question: 0, noise: 8 / 3 });
});

test("differenceTable returns the paired differences, less their mean", () => {
  const arm = (correct: readonly (readonly number[])[]): Tallies_SQ =>
    correct.map((row) => row.map((value) => ({ n: 1, correct: value })));
  const a = [
    [1, 0, 1],
    [1, 1, 0],
  ];
  const b = [
    [0, 0, 1],
    [1, 0, 1],
  ];
  // Differences 1, 0, 0 and 0, 1, -1, less their mean of 1/6.
  const expected = [1, 0, 0, 0, 1, -1].map((value) => value - 1 / 6);
  const twice = (table: Tallies_SQ) => table.map((row) => row.map(({ correct }) => ({ n: 2, correct: 2 * correct })));
  // However often each arm answers: what is compared is its share.
  for (const table of [differenceTable(arm(a), arm(b)), differenceTable(twice(arm(a)), arm(b))])
    expect(table.flat()).toEqual(expected.map((value) => expect.closeTo(value, 12)));
});

test("by hand: with a normal interval of known width, 1.96 + 0.8416 standard deviations are detectable; without variance, any difference", () => {
  // The seed component is not in the interval of one seed. sqrt((0.03 + 0.13) / 64) = 0.05, and 2.8016 * 0.05 = 0.1401.
  expect(detectableDifference({ seed: 1, question: 0.03, noise: 0.13 }, 1, 64)).toBeCloseTo(0.1401, 4);
  // Seeds that do not vary add nothing to the interval, however many: sqrt(0.16 / 64) = 0.05 again.
  for (const S of [2, 3, 5])
    expect(detectableDifference({ seed: 0, question: 0.16, noise: 0 }, S, 64)).toBeCloseTo(0.1401, 4);
  expect(detectableDifference({ seed: 0, question: 0, noise: 0 }, 3, 64)).toBe(0);
});

test("by hand: with two seeds and no other variance, 8.42 standard deviations are detectable", () => {
  // The interval ends at the estimate -+ (12.706 / 1.96) * |half the seeds' difference| = -+ 6.4827 |v|. The estimate is d + u. u and v are
  // independent and normal, with the same standard deviation: 1 / sqrt(2) for seeds of variance 1. Probability of detection at d:
  // P(d + u > 6.4827 |v|) + P(d + u < -6.4827 |v|). For d = 8.42 standard deviations of u, P(|v| < (8.42 + u) / 6.4827) is
  // P(|v| < 1.2988) = 0.806 at u = 0; averaged over u (its curvature -2 * 1.2988 * 0.1716 / 6.4827^2 / 2 = -0.0053): 0.8007.
  expect(detectableDifference({ seed: 1, question: 0, noise: 1e-9 }, 2, 64)).toBeCloseTo(8.42 / Math.SQRT2, 1);
});

test("three seeds and no other variance: at the detectable difference, 80% of 200,000 drawn intervals exclude 0", () => {
  // Two draws from three seeds. The mean that is farthest below is the lowest seed drawn twice, with probability 1/9 > 2.5%: the interval of a
  // positive difference excludes 0 if the estimate exceeds (4.303 / 1.96) times the lowest seed's deviation. An interval below 0
  // has next to no probability here.
  const random = stream("three seeds");
  const needed = Array.from({ length: 200_000 }, () => {
    const seeds = [normal(random), normal(random), normal(random)];
    const center = seeds.reduce((sum, seed) => sum + seed, 0) / 3;
    return (4.303 / 1.96) * (center - Math.min(...seeds)) - center;
  }).toSorted((a, b) => a - b);
  const found = detectableDifference({ seed: 1, question: 0, noise: 1e-9 }, 3, 64);
  expect(Math.abs(found / (needed[160_000] ?? 0) - 1)).toBeLessThan(0.003);
});

test.each([
  [4, 2.1277],
  [5, 1.6818],
  [10, 0.9959],
])(
  "with %i seeds and no other variance, %d standard deviations are detectable, as by Student's t test",
  (S, deviations) => {
    // P(|t| > q) = 0.8, where q is the 97.5% quantile of Student's t with S - 1 degrees of freedom, and t is noncentral, with the same degrees of
    // freedom and the noncentrality sqrt(S) * deviations.
    expect(detectableDifference({ seed: 1, question: 0, noise: 1e-9 }, S, 64)).toBeCloseTo(deviations, 3);
  },
);

test("many seeds that differ by noise alone: the noise counts once, so little more than 1.96 + 0.8416 standard deviations is detectable", () => {
  // A hundred seeds: Student's quantile is close to the normal one, and MS_seeds to MS_noise, so the part of the seeds is close to 0.
  const deviations = detectableDifference({ seed: 0, question: 0, noise: 1 }, 100, 100) / Math.sqrt(1 / (100 * 100));
  expect(deviations).toBeGreaterThan(2.8);
  expect(deviations).toBeLessThan(2.95);
});

test("more questions never raise the detectable difference, nor, from two seeds on, do more seeds", () => {
  const part = fc.integer({ min: 0, max: 300 }).map((thousandths) => thousandths / 1000);
  const parts = fc.record({ seed: part, question: part, noise: part });
  const sizes = {
    S: fc.integer({ min: 2, max: 16 }),
    Q: fc.integer({ min: 8, max: 400 }),
    more: fc.integer({ min: 1, max: 5 }),
  };
  fc.assert(
    fc.property(parts, fc.record(sizes), (given, { S, Q, more }) => {
      const most = detectableDifference(given, S, Q) * (1 + 1e-6);
      expect(detectableDifference(given, S + more, Q)).toBeLessThanOrEqual(most);
      expect(detectableDifference(given, S, Q + more)).toBeLessThanOrEqual(most);
    }),
    { numRuns: 40 },
  );
});

const normal = (random: Random) =>
  Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());

const SIMULATIONS = 150;
/** Three standard errors of a share whose true value is p. */
const tolerance = (p: number) => 3 * Math.sqrt((p * (1 - p)) / SIMULATIONS);

/** An arm that is `difference` above one that scores 0 everywhere, with these variances. */
function simulatedArm(difference: number, parts: VarianceComponents, S: number, Q: number, random: Random): Tallies_SQ {
  const draw = (variance: number) => Math.sqrt(variance) * normal(random);
  const questions_Q = Array.from({ length: Q }, () => draw(parts.question));
  return Array.from({ length: S }, () => {
    const seed = draw(parts.seed);
    return questions_Q.map((question) => ({ n: 1, correct: difference + seed + question + draw(parts.noise) }));
  });
}

test.each([
  { S: 3, parts: { seed: 0.005, question: 0.005, noise: 0.02 } },
  { S: 5, parts: { seed: 0.004, question: 0.01, noise: 0.04 } },
])(
  "$S simulated seeds: the interval excludes 0 in 80% of cases at the detectable difference, in 5% at 0",
  ({ S, parts }) => {
    const Q = 24;
    const difference = detectableDifference(parts, S, Q);
    const zeros: Tallies_SQ = Array.from({ length: S }, () => Array.from({ length: Q }, () => ({ n: 1, correct: 0 })));
    const random = stream("power", S);
    let [found, wrong] = [0, 0];
    for (let i = 0; i < SIMULATIONS; i++) {
      const arm = simulatedArm(difference, parts, S, Q, random);
      const { low, high } = differenceEstimate(arm, zeros, [i]) ?? expect.fail();
      if (low > 0 || high < 0) found++;
      // The interval moves with the difference: at 0, it would exclude 0 when here it excludes the difference.
      if (low > difference || high < difference) wrong++;
    }
    expect(Math.abs(found / SIMULATIONS - 0.8)).toBeLessThan(tolerance(0.8));
    expect(Math.abs(wrong / SIMULATIONS - 0.05)).toBeLessThan(tolerance(0.05));
  },
);
