/** @file The confidence interval of an evaluation: worked by hand, its properties, and its coverage. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { stream } from "../../../core/random.ts";
import {
  accuracyInterval,
  sumTallies,
  sumTalliesBy,
  type Tally,
  wilson,
} from "../../../core/training/confidence-interval.ts";

const results = (questions: number, runs: number) =>
  fc.array(fc.array(fc.constantFrom(0, 1), { minLength: runs, maxLength: runs }), {
    minLength: 1,
    maxLength: questions,
  });
const scores = (questions: readonly (readonly number[])[]): Tally[] =>
  questions.map((runs) => sumTallies(runs.map((correct) => ({ n: 1, correct }))));

test("Wilson's interval at 8 of 10, and at the edges", () => {
  // z = 1.96: (0.8 + z^2 / 20 -+ z sqrt(0.016 + z^2 / 400)) / (1 + z^2 / 10) = (0.9921 -+ 0.3136) / 1.3842.
  const { low, high } = wilson({ n: 10, correct: 8 });
  expect(low).toBeCloseTo(0.4902, 3);
  expect(high).toBeCloseTo(0.9433, 3);
  expect(wilson({ n: 0, correct: 0 })).toEqual({ low: 0, high: 1 });
  expect(wilson({ n: 5, correct: 0 }).low).toBe(0);
});

test("by hand: the interval of four questions with two runs each is Wilson's at their effective size", () => {
  // Means 1, 1/2, 1/2, 0: p = 1/2, v = (1/4 + 0 + 0 + 1/4) / 16 = 1/32, effective size (1/4) / (1/32) = 8: as for eight independent rollouts.
  const halves = scores([
    [1, 1],
    [1, 0],
    [0, 1],
    [0, 0],
  ]);
  expect(accuracyInterval(halves)).toEqual(wilson({ n: 8, correct: 4 }));
  // Runs that always agree are worth one run: means 1, 1, 0, 0, v = 1/16, effective size 4.
  const agreeing = scores([
    [1, 1],
    [1, 1],
    [0, 0],
    [0, 0],
  ]);
  expect(accuracyInterval(agreeing)).toEqual(wilson({ n: 4, correct: 2 }));
});

test("sums by index are those of the tallies with that index, in their order, and each tally is read once", () => {
  const item = fc.record({
    index: fc.nat(5),
    tally: fc.record({ n: fc.nat(3), correct: fc.double({ min: 0, max: 1 }) }),
  });
  fc.assert(
    fc.property(fc.array(item), (items) => {
      let reads = 0;
      const tallyOf = ({ tally }: (typeof items)[number]) => {
        reads += 1;
        return tally;
      };
      const sums = sumTalliesBy(5, items, ({ index }) => index, tallyOf);
      const ofIndex = (wanted: number) => items.filter(({ index }) => index === wanted).map(({ tally }) => tally);
      expect(sums).toEqual([0, 1, 2, 3, 4].map((index) => sumTallies(ofIndex(index))));
      expect(reads).toBe(items.filter(({ index }) => index < 5).length);
    }),
  );
});

test("with one run the interval is exactly Wilson's", () => {
  fc.assert(
    fc.property(results(60, 1), (questions) => {
      expect(accuracyInterval(scores(questions))).toEqual(wilson(sumTallies(scores(questions))));
    }),
  );
});

test("the order of runs and of questions changes nothing", () => {
  const permuted = <T>(values: readonly T[], seed: number) =>
    stream("permute", seed)
      .choose(values.length, values.length)
      .map((i) => values[i] as T);
  fc.assert(
    fc.property(results(30, 3), fc.nat(), (questions, seed) => {
      const order = permuted([0, 1, 2], seed);
      const other = permuted(
        questions.map((runs) => order.map((run) => runs[run] ?? 0)),
        seed,
      );
      const [a, b] = [accuracyInterval(scores(questions)), accuracyInterval(scores(other))];
      expect(b.low).toBeCloseTo(a.low, 12);
      expect(b.high).toBeCloseTo(a.high, 12);
    }),
  );
});

test("the interval contains the accuracy; it is never wider than with one run per question, nor narrower than with independent rollouts", () => {
  fc.assert(
    fc.property(results(40, 4), (questions) => {
      const all = scores(questions);
      const { n, correct } = sumTallies(all);
      const { low, high } = accuracyInterval(all);
      expect(low).toBeLessThanOrEqual(correct / n + 1e-12);
      expect(high).toBeGreaterThanOrEqual(correct / n - 1e-12);
      const width = (size: number) => {
        const one = wilson({ n: size, correct: (correct / n) * size });
        return one.high - one.low;
      };
      expect(high - low).toBeLessThanOrEqual(width(all.length) + 1e-12);
      expect(high - low).toBeGreaterThanOrEqual(width(n) - 1e-12);
    }),
  );
});

test("a single question counts once, however often it was asked and whatever share of its answers is correct", () => {
  for (const correct of [0, 3, 8])
    expect(accuracyInterval([{ n: 8, correct }])).toEqual(wilson({ n: 1, correct: correct / 8 }));
});

test("lost runs do not count, and a question that lost all its runs is left out", () => {
  const kept = scores([
    [1, 1, 0],
    [0, 0],
  ]);
  expect(accuracyInterval([...kept, { n: 0, correct: 0 }])).toEqual(accuracyInterval(kept));
  expect(accuracyInterval([{ n: 0, correct: 0 }])).toEqual({ low: 0, high: 1 });
  // Two questions whose runs agree are worth two rollouts, however many others lost theirs.
  const agreeing = scores([
    [1, 1],
    [0, 0],
  ]);
  const lost = { n: 0, correct: 0 };
  expect(accuracyInterval([...agreeing, lost, lost])).toEqual(wilson({ n: 2, correct: 1 }));
});

test.each<[what: string, questions: number, runs: number, chanceOfCorrect: (u: number) => number]>([
  ["hard and easy questions", 40, 3, (u) => (u < 0.3 ? 0.15 : 0.9)],
  ["questions much alike", 40, 5, (u) => 0.4 + 0.2 * u],
  ["all or nothing", 60, 3, (u) => (u < 0.4 ? 0.02 : 0.98)],
  ["nearly solved", 100, 3, (u) => u ** 0.05],
])("covers the true accuracy in about 95% of simulations: %s", (what, questions, runs, chanceOfCorrect) => {
  const draw = stream("coverage", what);
  const grid = Array.from({ length: 10_000 }, (_, i) => chanceOfCorrect((i + 0.5) / 10_000));
  const truth = grid.reduce((sum, p) => sum + p, 0) / grid.length;
  const repetitions = 4000;
  let covered = 0;
  for (let i = 0; i < repetitions; i++) {
    const benchmark = Array.from({ length: questions }, () => chanceOfCorrect(draw.uniform()));
    const outcomes = benchmark.map((p) => Array.from({ length: runs }, () => (draw.uniform() < p ? 1 : 0)));
    const { low, high } = accuracyInterval(scores(outcomes));
    if (low <= truth && truth <= high) covered++;
  }
  // One standard error of the simulation is 0.35%.
  expect(covered / repetitions).toBeGreaterThan(0.935);
  expect(covered / repetitions).toBeLessThan(0.97);
});
