/** @file The confidence intervals of a comparison of arms: by hand, properties, and coverage. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Random, stream } from "../../../core/random.ts";
import { differenceEstimate, shareEstimate, type Tallies_SQ } from "../../../core/training/bootstrap.ts";
import type { Tally } from "../../../core/training/confidence-interval.ts";

const answer = (correct: boolean | number): Tally => ({ n: 1, correct: Number(correct) });
const rows = (table: readonly (readonly number[])[]): Tallies_SQ => table.map((row) => row.map(answer));
const tables = (S: number, Q: number) =>
  fc.array(fc.array(fc.constantFrom(0, 1), { minLength: Q, maxLength: Q }), { minLength: S, maxLength: S }).map(rows);
const pairs = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 12 }))
  .chain(([S, Q]) => fc.tuple(tables(S, Q), tables(S, Q)));
const width = ({ low, high }: { low: number; high: number }) => high - low;

test("by hand: one seed, four questions, three correct: the value, and the bounds from 3 draws of 4", () => {
  // A draw of three misses the wrong question with probability (3/4)^3 = 0.42, and has only it with 1/64 = 0.016: between 1/3 and 1.
  const estimate = shareEstimate(rows([[1, 1, 1, 0]]), ["by hand"]);
  expect(estimate?.value).toBe(0.75);
  expect(estimate?.low).toBeCloseTo(1 / 3, 9);
  expect(estimate?.high).toBe(1);
});

test("the value is the pooled difference and lies in its interval; the bounds are in range", () => {
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

test("the same name gives the same interval; swapping the arms mirrors it", () => {
  fc.assert(
    fc.property(pairs, fc.nat(), ([a, b], seed) => {
      const forward = differenceEstimate(a, b, [seed]) ?? expect.fail();
      expect(differenceEstimate(a, b, [seed])).toEqual(forward);
      const back = differenceEstimate(b, a, [seed]) ?? expect.fail();
      expect(back.value).toBeCloseTo(-forward.value, 12);
      expect(back.low).toBeCloseTo(-forward.high, 9);
      expect(back.high).toBeCloseTo(-forward.low, 9);
    }),
    { numRuns: 15 },
  );
});

test("paired: arms that differ equally on every question have an interval of width 0, however hard the questions are", () => {
  const random = stream("paired");
  const base = Array.from({ length: 40 }, () => 0.8 * random.uniform());
  const arm = (gain: number) => rows([1, 2, 3].map(() => base.map((share) => share + gain)));
  const { value, low, high } = differenceEstimate(arm(0.1), arm(0), ["paired"]) ?? expect.fail();
  for (const bound of [value, low, high]) expect(bound).toBeCloseTo(0.1, 9);
  expect(width(shareEstimate(arm(0), ["paired"]) ?? expect.fail())).toBeGreaterThan(0.1);
});

test("questions count by their number of occasions; without any occasion there is no estimate", () => {
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

test.each<[what: string, seeds: number, questions: number, spread: { seed: number; question: number; taste: number }]>([
  ["five seeds that differ", 5, 80, { seed: 0.05, question: 0.25, taste: 0.1 }],
  ["five seeds that do not", 5, 80, { seed: 0, question: 0.25, taste: 0 }],
  ["three seeds", 3, 80, { seed: 0.04, question: 0.25, taste: 0.1 }],
  ["one seed, and no claim about others", 1, 80, { seed: 0, question: 0.25, taste: 0 }],
])("covers the truth about 95 times in 100: %s", (what, seeds, questions, spread) => {
  const random = stream("coverage", what);
  const clip = (p: number) => Math.min(1, Math.max(0, p));
  const sd = Math.hypot(spread.seed, spread.question, spread.taste);
  const truth = [0.6, 0.5].map((center) => {
    const grid = Array.from({ length: 2000 }, () => clip(center + sd * normal(random)));
    return grid.reduce((sum, p) => sum + p, 0) / grid.length;
  });
  const repetitions = 100;
  let covered = 0;
  for (let i = 0; i < repetitions; i++) {
    const hardness = Array.from({ length: questions }, () => spread.question * normal(random));
    const arm = (center: number): Tallies_SQ => {
      const taste = Array.from({ length: questions }, () => spread.taste * normal(random));
      return Array.from({ length: seeds }, () => {
        const luck = spread.seed * normal(random);
        return hardness.map((hard, q) => answer(random.uniform() < clip(center + luck + hard + (taste[q] ?? 0))));
      });
    };
    const [a, b] = [arm(0.6), arm(0.5)];
    const { low, high } = differenceEstimate(a, b, [i]) ?? expect.fail();
    const difference = (truth[0] ?? 0) - (truth[1] ?? 0);
    if (low <= difference && difference <= high) covered++;
  }
  // One standard error of the simulation is 2.2 %.
  expect(covered / repetitions).toBeGreaterThan(0.88);
});
