/** @file The confidence intervals of a comparison of arms: cases worked by hand, properties, and coverage. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Random, stream } from "../../../core/random.ts";
import {
  differenceEstimate,
  meanSquares,
  shareEstimate,
  student975,
  type Tallies_SQ,
} from "../../../core/training/bootstrap.ts";
import { accuracyInterval, sumTallies, type Tally, wilson } from "../../../core/training/confidence-interval.ts";

const answer = (correct: boolean | number): Tally => ({ n: 1, correct: Number(correct) });
const rows = (table: readonly (readonly number[])[]): Tallies_SQ => table.map((row) => row.map(answer));
const tables = (S: number, Q: number) =>
  fc.array(fc.array(fc.constantFrom(0, 1), { minLength: Q, maxLength: Q }), { minLength: S, maxLength: S }).map(rows);
const pairs = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 12 }))
  .chain(([S, Q]) => fc.tuple(tables(S, Q), tables(S, Q)));
const width = ({ low, high }: { low: number; high: number }) => high - low;

test("the interval of a share by hand: one seed, four questions, three correct", () => {
  // Three questions are drawn from four, with replacement. With probability (3/4)^3 = 0.42 no draw is the wrong one: share 1. With probability
  // (1/4)^3 = 0.016, less than 0.025, all three are: share 0. So the 97.5% quantile is 1, and the 2.5% quantile is not 0 but the next share, 1/3.
  const estimate = shareEstimate(rows([[1, 1, 1, 0]]), ["by hand"]);
  expect(estimate?.value).toBe(0.75);
  expect(estimate?.low).toBeCloseTo(1 / 3, 9);
  expect(estimate?.high).toBe(1);
});

test("by hand: against an arm that is always wrong, the difference has the interval of the other arm's share; swapped, its mirror image", () => {
  const [some, none] = [rows([[1, 1, 1, 0]]), rows([[0, 0, 0, 0]])];
  const third = expect.closeTo(1 / 3, 9);
  expect(differenceEstimate(some, none, ["by hand"])).toEqual({ value: 0.75, low: third, high: 1 });
  expect(differenceEstimate(none, some, ["by hand"])).toEqual({
    value: -0.75,
    low: -1,
    high: expect.closeTo(-1 / 3, 9),
  });
});

test("seeds that all answer alike add no width: three have the interval of one", () => {
  const estimate = shareEstimate(rows([1, 2, 3].map(() => [1, 1, 1, 0])), ["alike"]);
  expect(estimate).toEqual({ value: 0.75, low: expect.closeTo(1 / 3, 9), high: 1 });
});

test("by hand: a resample without a counted answer is left out", () => {
  // Two of three questions are drawn; the third lost its answer. In 1/9 of draws it is drawn twice. Of the others, 3/8 have the correct answer
  // alone, 3/8 the wrong one alone.
  const lost = { n: 0, correct: 0 };
  expect(shareEstimate([[answer(1), answer(0), lost]], ["lost"])).toEqual({ value: 0.5, low: 0, high: 1 });
});

test("by hand: answers that are all correct, or all wrong, have Wilson's interval over the distinct questions", () => {
  // Wilson's interval at 8 of 8 is [1 / (1 + 1.96^2 / 8), 1] = [0.6756, 1], however many seeds answered.
  const seeds = (count: number, value: number) =>
    rows(Array.from({ length: count }, () => Array<number>(8).fill(value)));
  for (const count of [1, 5]) {
    const right = shareEstimate(seeds(count, 1), ["right"]) ?? expect.fail();
    expect(right.value).toBe(1);
    expect(right.low).toBeCloseTo(8 / (8 + 1.96 ** 2), 9);
    expect(right.high).toBeCloseTo(1, 9);
    const wrong = shareEstimate(seeds(count, 0), ["wrong"]) ?? expect.fail();
    expect(wrong.value).toBe(0);
    expect(wrong.low).toBeCloseTo(0, 9);
    expect(wrong.high).toBeCloseTo(1 - 8 / (8 + 1.96 ** 2), 9);
  }
  // A question that no seed counted is not part of the sample.
  const lost = seeds(2, 1).map((row) => row.map((tally, q) => (q === 0 ? { n: 0, correct: 0 } : tally)));
  expect(shareEstimate(lost, ["lost"])?.low).toBeCloseTo(7 / (7 + 1.96 ** 2), 9);
});

test("a share between 0 and 1 whose resamples are all the same has the interval of one evaluation, not one without width", () => {
  const halves = Array.from({ length: 10 }, () => ({ n: 2, correct: 1 }));
  expect(shareEstimate([halves], ["halves"])).toEqual({ value: 0.5, ...accuracyInterval(halves) });
  // Only one question was counted: one seed answered it twice.
  const others = Array.from({ length: 5 }, () => ({ n: 0, correct: 0 }));
  const one = shareEstimate([[{ n: 2, correct: 1 }, ...others]], ["one"]) ?? expect.fail();
  expect(one).toEqual({ value: 0.5, ...wilson({ n: 1, correct: 0.5 }) });
});

test("by hand: if two seeds differ and the questions do not, only the seeds add width", () => {
  // Shares 0.50 and 0.52 on each of ten questions. One of two seeds is drawn, so a draw is 0.01 below or above the mean of 0.51. Answers have
  // no noise, so k = t / z = 12.706 / 1.96 = 6.4827, and the interval is 0.51 +- 0.0648.
  const seeds = [0.5, 0.52].map((share) => Array.from({ length: 10 }, () => share));
  const estimate = shareEstimate(rows(seeds), ["seeds"]);
  expect(estimate?.value).toBeCloseTo(0.51, 12);
  expect(estimate?.low).toBeCloseTo(0.51 - 0.01 * (12.706 / 1.96), 9);
  expect(estimate?.high).toBeCloseTo(0.51 + 0.01 * (12.706 / 1.96), 9);
});

test("by hand: one seed that is better than two others widens the interval upward", () => {
  // The mean of two draws from three seeds is 0.50 or 0.53 with probability 4/9 each, or 0.56 with 1/9. Less their mean of 0.52, times
  // k = t / z = 4.303 / 1.96: the interval is [0.52 - 0.02 k, 0.52 + 0.04 k].
  const seeds = [0.5, 0.5, 0.56].map((share) => Array<number>(10).fill(share));
  const { low, high } = shareEstimate(rows(seeds), ["better"]) ?? expect.fail();
  expect(low).toBeCloseTo(0.52 - 0.02 * (4.303 / 1.96), 9);
  expect(high).toBeCloseTo(0.52 + 0.04 * (4.303 / 1.96), 9);
});

test("by hand: one question shows how two seeds differ, and nothing else", () => {
  // Shares 0.25 and 0.75: MS_seeds = 2 * 0.25^2.
  expect(meanSquares([[0.25], [0.75]])).toEqual({ seeds: 0.125, questions: 0, noise: 0 });
  // Shares 0.49 and 0.51, so 0.5 -+ 0.01 k, where k = t / z as above.
  const { low, high } =
    shareEstimate([[{ n: 100, correct: 49 }], [{ n: 100, correct: 51 }]], ["one question"]) ?? expect.fail();
  expect([low, high]).toEqual([-1, 1].map((sign) => expect.closeTo(0.5 + sign * 0.01 * (12.706 / 1.96), 9)));
});

test("by hand: the mean squares of a table of three seeds and three questions", () => {
  // 10 plus the seeds' effects -2, 0, 2, the questions' -3, 0, 3, and the noise [1, -1, 0], [-2, 1, 1], [1, 0, -1].
  const table = [
    [6, 7, 11],
    [5, 11, 14],
    [10, 12, 14],
  ];
  // seeds 3 * (4 + 0 + 4) / 2, questions 3 * (9 + 0 + 9) / 2, noise (1 + 1 + 4 + 1 + 1 + 1 + 1) / 4
  expect(meanSquares(table)).toEqual({ seeds: 12, questions: 27, noise: 2.5 });
});

test("by hand: if seeds and questions differ, their variances add", () => {
  // Seeds with shares 0.4, 0.5, 0.6, and questions that are 0.2 easier or harder for every seed: MS_noise = 0. The variance of the mean is
  // 0.04 / (Q - 1) from questions and 0.01 / 3 from seeds, so with t = 4.303 a normal approximation has the half-width
  // 1.96 * sqrt(0.0004 + (4.303 / 1.96)^2 * 0.01 / 3) = 0.2515. The mean of two draws from three seeds takes only 5 values and is not normal: within 10%.
  const effects_Q = Array.from({ length: 101 }, (_, q) => (q % 2 === 0 ? 0.2 : -0.2));
  const { low, high } =
    shareEstimate(rows([0.4, 0.5, 0.6].map((share) => effects_Q.map((effect) => share + effect))), [1]) ??
    expect.fail();
  expect((high - low) / 2 / 0.2515).toBeGreaterThan(0.9);
  expect((high - low) / 2 / 0.2515).toBeLessThan(1.1);
});

test.each([
  [1, 12.706],
  [4, 2.776],
  [15, 2.131],
  [16, 2.12],
  [20, 2.086],
  [30, 2.042],
  [100, 1.984],
])(
  "Student's 0.975 quantile at %i degrees of freedom is %d; beyond the table, within one percent",
  (freedom, exact) => {
    expect(Math.abs(student975(freedom) / exact - 1)).toBeLessThan(freedom > 15 ? 0.01 : 1e-9);
  },
);

test("the value is the pooled difference and lies in its interval; the bounds lie in [-1, 1]", () => {
  fc.assert(
    fc.property(pairs, fc.nat(), ([a, b], seed) => {
      const { value, low, high } = differenceEstimate(a, b, [seed]) ?? expect.fail();
      const share = (table: Tallies_SQ) =>
        table.flat().reduce((sum, { correct }) => sum + correct, 0) / table.flat().length;
      expect(value).toBeCloseTo(share(a) - share(b), 12);
      expect(low).toBeGreaterThanOrEqual(-1);
      expect(high).toBeLessThanOrEqual(1);
      expect(low).toBeLessThanOrEqual(value + 1e-9);
      expect(high).toBeGreaterThanOrEqual(value - 1e-9);
    }),
    { numRuns: 25 },
  );
});

test("the same stream name gives the same interval; swapping the arms mirrors it", () => {
  fc.assert(
    fc.property(pairs, fc.nat(), ([a, b], seed) => {
      const forward = differenceEstimate(a, b, [seed]) ?? expect.fail();
      expect(differenceEstimate(a, b, [seed])).toEqual(forward);
      const swapped = differenceEstimate(b, a, [seed]) ?? expect.fail();
      expect(swapped.value).toBeCloseTo(-forward.value, 12);
      expect(swapped.low).toBeCloseTo(-forward.high, 9);
      expect(swapped.high).toBeCloseTo(-forward.low, 9);
    }),
    { numRuns: 15 },
  );
});

test("paired: if two arms differ by the same amount on all 40 questions, the half-width is Wilson's bound for 0 of 40, however much the questions differ", () => {
  const random = stream("paired");
  const base = Array.from({ length: 40 }, () => 0.8 * random.uniform());
  const arm = (gain: number) => rows([1, 2, 3].map(() => base.map((share) => share + gain)));
  const { value, low, high } = differenceEstimate(arm(0.1), arm(0), ["paired"]) ?? expect.fail();
  const half = 1.96 ** 2 / (40 + 1.96 ** 2);
  expect(value).toBeCloseTo(0.1, 9);
  expect([low, high].map((bound) => bound - value)).toEqual([-half, half].map((one) => expect.closeTo(one, 9)));
  expect(width(shareEstimate(arm(0), ["paired"]) ?? expect.fail())).toBeGreaterThan(0.1);
});

test("two arms with all answers correct may still differ", () => {
  const all = rows([Array<number>(64).fill(1)]);
  const { value, low, high } = differenceEstimate(all, all, ["equal"]) ?? expect.fail();
  expect(value).toBe(0);
  expect([low, high]).toEqual([expect.closeTo(-0.0566, 4), expect.closeTo(0.0566, 4)]);
  const none = rows([Array<number>(64).fill(0)]);
  expect(differenceEstimate(all, none, ["opposite"])).toMatchObject({
    value: 1,
    low: expect.closeTo(0.9434, 4),
    high: 1,
  });
});

test("two arms that never differ: only the questions that both answered bound how often they may", () => {
  const lost = { n: 0, correct: 0 };
  const all = rows([[1, 1, 1, 1, 1, 1, 1, 1]]);
  const without = (...questions: number[]) =>
    all.map((row) => row.map((tally, q) => (questions.includes(q) ? lost : tally)));
  // Wilson's upper bound for 0 of the 5 questions left: z^2 / (5 + z^2).
  const half = 1.96 ** 2 / (5 + 1.96 ** 2);
  const { value, low, high } = differenceEstimate(without(0), without(1, 2), ["lost"]) ?? expect.fail();
  expect([value, low, high]).toEqual([0, expect.closeTo(-half, 9), expect.closeTo(half, 9)]);
});

test("seeds that differ no more than the noise of single answers explains add no width", () => {
  // Shares of 9, 9, 10, 11 and 11 of 20: MS_noise / MS_seeds is above (t / z)^2 = 2.006, so k is 0.
  const scores = rows(
    [9, 9, 10, 11, 11].map((correct, s) =>
      Array.from({ length: 20 }, (_, q) => Number((7 * q + 3 * s) % 20 < correct)),
    ),
  );
  const pooled = [scores[0]?.map((_, q) => sumTallies(scores.flatMap((row) => row[q] ?? []))) ?? []];
  const [bySeed, byQuestion] = [scores, pooled].map((table) => width(shareEstimate(table, ["k"]) ?? expect.fail()));
  expect(bySeed).toBeGreaterThan(0);
  expect(Math.abs((bySeed ?? 0) / (byQuestion ?? 1) - 1)).toBeLessThan(0.08);
});

test("a question's weight is its number of rollouts; without any rollout there is no estimate", () => {
  const scores: Tallies_SQ = [
    [
      { n: 3, correct: 3 },
      { n: 1, correct: 0 },
      { n: 0, correct: 0 },
    ],
  ];
  expect(shareEstimate(scores, [1])?.value).toBe(0.75);
  expect(shareEstimate([[{ n: 0, correct: 0 }]], [1])).toBeUndefined();
  expect(differenceEstimate(scores, [scores[0]?.map(() => ({ n: 0, correct: 0 })) ?? []], [1])).toBeUndefined();
  expect(shareEstimate([], [1])).toBeUndefined();
});

const normal = (random: Random) =>
  Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());

test.each<
  [what: string, seeds: number, questions: number, sd: { seed: number; question: number; armByQuestion: number }]
>([
  ["five seeds that differ", 5, 80, { seed: 0.05, question: 0.25, armByQuestion: 0.1 }],
  ["five seeds that do not", 5, 80, { seed: 0, question: 0.25, armByQuestion: 0 }],
  ["three seeds", 3, 80, { seed: 0.04, question: 0.25, armByQuestion: 0.1 }],
  ["one seed, and no claim about others", 1, 80, { seed: 0, question: 0.25, armByQuestion: 0 }],
])("covers the true difference in more than 88% of simulations: %s", (what, seeds, questions, sd) => {
  const random = stream("coverage", what);
  const clip = (p: number) => Math.min(1, Math.max(0, p));
  const totalSd = Math.hypot(sd.seed, sd.question, sd.armByQuestion);
  const truth = [0.6, 0.5].map((center) => {
    const draws = Array.from({ length: 2000 }, () => clip(center + totalSd * normal(random)));
    return draws.reduce((sum, p) => sum + p, 0) / draws.length;
  });
  const repetitions = 100;
  let covered = 0;
  for (let i = 0; i < repetitions; i++) {
    const questionEffects = Array.from({ length: questions }, () => sd.question * normal(random));
    const arm = (center: number): Tallies_SQ => {
      const armEffects = Array.from({ length: questions }, () => sd.armByQuestion * normal(random));
      return Array.from({ length: seeds }, () => {
        const seedEffect = sd.seed * normal(random);
        return questionEffects.map((effect, q) =>
          answer(random.uniform() < clip(center + seedEffect + effect + (armEffects[q] ?? 0))),
        );
      });
    };
    const [a, b] = [arm(0.6), arm(0.5)];
    const { low, high } = differenceEstimate(a, b, [i]) ?? expect.fail();
    const difference = (truth[0] ?? 0) - (truth[1] ?? 0);
    if (low <= difference && difference <= high) covered++;
  }
  // The nominal coverage is 95%, the simulation's standard error 2.2%.
  expect(covered / repetitions).toBeGreaterThan(0.88);
});
