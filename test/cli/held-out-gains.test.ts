/** @file The gain of a run on held-out questions, worked by hand. It is paired by question, and comes with counts by kind of question. */
import { expect, test } from "vitest";
import { heldOutGains } from "../../cli/held-out-gains.ts";
import type { HeldOutScores } from "../../cli/held-out-scores.ts";

/** Questions alternate between two kinds; `correct`: 1 for a correct answer and 0 for a wrong one, by question. */
const scores = (team: number, correct: readonly number[], suite = "test", closedBook = false): HeldOutScores => ({
  ...{ team, suite, temperature: 1, closedBook },
  questions: correct.map((one, i) => ({
    ...{ question: `q${i}`, kind: i % 2 === 0 ? "even" : "odd", n: 1, correct: one, studies: {} },
  })),
});

test("the gain is the difference of the shares, with the counts of each kind", () => {
  const [gain, ...others] = heldOutGains("r", [scores(0, [1, 0, 0, 0]), scores(8, [1, 1, 1, 0])], 8);
  expect(others).toEqual([]);
  expect(gain).toMatchObject({ suite: "test", temperature: 1, gain: 0.5 });
  expect(gain?.kinds).toEqual({
    even: { before: { n: 2, correct: 1 }, after: { n: 2, correct: 2 } },
    odd: { before: { n: 2, correct: 0 }, after: { n: 2, correct: 1 } },
  });
});

test("scores are paired by question: if all questions have the same gain, the interval is narrow", () => {
  const [before, after] = [Array.from({ length: 40 }, () => 0), Array.from({ length: 40 }, () => 1)];
  expect(heldOutGains("r", [scores(0, before), scores(3, after)], 3)).toMatchObject([
    { gain: 1, interval: { low: expect.closeTo(0.9124, 4), high: 1 } },
  ]);
  const half = Array.from({ length: 40 }, (_, i) => i % 2);
  expect(heldOutGains("r", [scores(0, half), scores(3, half)], 3)).toMatchObject([
    { gain: 0, interval: { low: expect.closeTo(-0.0876, 4), high: expect.closeTo(0.0876, 4) } },
  ]);
});

test("a question lost before or after training is left out of the gain: losing wrong answers is not a gain", () => {
  const before = scores(0, [0, 0, 1, 1, 0, 1]);
  const lost = ({ questions, ...rest }: HeldOutScores, indices: readonly number[]) => ({
    ...rest,
    questions: questions.map((one, i) => (indices.includes(i) ? { ...one, n: 0, correct: 0 } : one)),
  });
  const [gain] = heldOutGains("r", [before, lost({ ...before, team: 8 }, [0, 1])], 8);
  expect(gain?.gain).toBe(0);
  expect(gain?.kinds["even"]).toEqual({ before: { n: 3, correct: 1 }, after: { n: 2, correct: 1 } });
  expect(heldOutGains("r", [lost(before, [2, 3, 5]), { ...before, team: 8 }], 8)[0]?.gain).toBe(0);
  expect(heldOutGains("r", [lost(before, [0, 1, 2]), lost({ ...before, team: 8 }, [3, 4, 5])], 8)).toEqual([]);
});

test("the interval is the same every time it is computed", () => {
  const both = [scores(0, [1, 0, 0, 1, 0, 0]), scores(2, [1, 1, 0, 0, 1, 1])];
  const [gain] = heldOutGains("r", both, 2);
  expect(gain?.interval.low).toBeLessThan(gain?.gain ?? Number.NaN);
  expect(heldOutGains("r", both, 2)).toEqual([gain]);
});

test("only open-book suites on which both teams were evaluated have a gain, and an untrained run has none", () => {
  const closed = [scores(0, [1, 0], "test", true), scores(4, [1, 1], "test", true)];
  expect(
    heldOutGains("r", [...closed, scores(0, [0], "early"), scores(2, [1], "middle"), scores(4, [1], "late")], 4),
  ).toEqual([]);
  expect(heldOutGains("r", [scores(0, [1, 0])], 0)).toEqual([]);
});
