/** @file The dashboard's scores per question: a question got better or worse only if the first and the last team have a score for it. */
import { expect, test } from "vitest";
import { questionScores } from "../../ui/app/parts/question-scores.ts";

const evaluation = (team: number, scores: Readonly<Record<string, readonly [correct: number, n: number]>>) => ({
  job: `job-${team}`,
  team,
  suite: "test",
  questions: Object.entries(scores).map(([question, [correct, n]]) => ({ question, kind: "any", n, correct })),
});

test("the gain is the last share minus the first, and 0 if either team has no score", () => {
  const teams = [
    evaluation(0, { better: [1, 4], worse: [4, 4], unscoredFirst: [0, 0], unscoredLast: [3, 4] }),
    evaluation(5, { better: [0, 4], worse: [4, 4], unscoredFirst: [4, 4], unscoredLast: [4, 4] }),
    evaluation(10, { better: [3, 4], worse: [2, 4], unscoredFirst: [4, 4], unscoredLast: [0, 0] }),
  ];
  expect(questionScores(teams).map(({ id, shares, gain }) => [id, shares, gain])).toEqual([
    ["better", [0.25, 0, 0.75], 0.5],
    ["worse", [1, 1, 0.5], -0.5],
    ["unscoredFirst", [null, 1, 1], 0],
    ["unscoredLast", [0.75, 1, null], 0],
  ]);
  expect(questionScores([])).toEqual([]);
});

test("a question with the same partial scores in another order got neither better nor worse", () => {
  const teams = [evaluation(0, { same: [0.1 + 0.2 + 0.3, 3] }), evaluation(5, { same: [0.3 + 0.2 + 0.1, 3] })];
  expect(questionScores(teams).map(({ gain }) => gain)).toEqual([0]);
});
