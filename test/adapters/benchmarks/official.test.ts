/** @file Loaders and scorers against the benchmarks' official code, on generated cases: official/README.md. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { categoriesOf } from "../../../adapters/benchmarks/categories.ts";
import { isGaiaMatch } from "../../../adapters/benchmarks/gaia-score.ts";
import { GymTask, gymScore } from "../../../adapters/benchmarks/reasoning-gym-score.ts";
import { scorerOf } from "../../../adapters/benchmarks/scorers.ts";
import { loadWebWalkerQa } from "../../../adapters/benchmarks/webwalkerqa.ts";
import { loadXbench } from "../../../adapters/benchmarks/xbench.ts";
import { isExactMatch } from "../../../adapters/judges/judged-rewards.ts";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { decrypt } from "../../../core/contracts/encryption.ts";
import { mean } from "../../../core/statistics.ts";
import { type JudgeInputFields, judgeConfig, scriptedJudge } from "../../fakes/scripted-judge.ts";
import { CANARY, gaiaCases, gymCases, walkerRows, xbenchFile, xbenchMatches } from "./official/cases.ts";

interface Expected {
  readonly gaia: string;
  readonly reasoningGym: readonly number[];
  readonly xbench: { readonly rows: string; readonly matches: string };
  readonly webwalkerqa: { readonly scores: string; readonly report: Readonly<Record<string, number>> };
}

const expected = JSON.parse(readFileSync(join(import.meta.dirname, "official/expected.json"), "utf8")) as Expected;
const folder = mkdtempSync(join(tmpdir(), "official-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

test("GAIA: the same verdict as question_scorer on 6,000 answers", () => {
  const cases = gaiaCases();
  expect(expected.gaia).toHaveLength(cases.length);
  const different = cases.filter(
    ({ answer, reference }, i) => isGaiaMatch(answer, reference) !== (expected.gaia[i] === "1"),
  );
  expect(different).toEqual([]);
});

test("reasoning-gym: the same score as score_answer on 1,000 answers to each of 7 tasks", () => {
  const cases = gymCases();
  expect(expected.reasoningGym).toHaveLength(cases.length);
  const different = cases.flatMap(({ task, answer, reference }, i) => {
    const [ours, official] = [gymScore(GymTask.parse(task), answer, reference), expected.reasoningGym[i] ?? Number.NaN];
    return Math.abs(ours - official) < 1e-6 ? [] : [{ task, answer, reference, ours, official }];
  });
  expect(different).toEqual([]);
});

test("xbench: 1,000 encrypted rows are read from a file, and decrypted as by its own code", () => {
  const { questions, canary = "" } = loadXbench(written("xbench.csv", xbenchFile()));
  expect(canary).toBe(CANARY);
  const rows = questions.map(({ id, prompt, answer }) => [
    id.replace("xbench-2510:", ""),
    decrypt(prompt, canary),
    decrypt(answer, canary),
  ]);
  expect(createHash("sha256").update(JSON.stringify(rows)).digest("hex")).toBe(expected.xbench.rows);
});

/** Why xbench's grader and our exact match differ on an answer. A judge decides on every answer that is not an exact match. */
const XBENCH_DIFFERENCES: Readonly<Record<string, (answer: string) => boolean>> = {
  "its grader reads an answer up to the first colon": (answer) => answer.includes(":"),
  "its grader reads one line; we ignore line breaks at the ends": (answer) => /^\n|\n$/.test(answer),
  "Python's strip removes U+001C and U+0085, JavaScript's trim U+FEFF": (answer) =>
    ["\u001c", "\u0085", "\ufeff"].some((space) => answer.includes(space)),
};

test("xbench: our exact matches are its grader's, except for three named differences", () => {
  const cases = xbenchMatches();
  expect(expected.xbench.matches).toHaveLength(cases.length);
  const different = cases.filter(
    ({ answer, reference }, i) => isExactMatch(answer, reference) !== (expected.xbench.matches[i] === "1"),
  );
  const explainedBy = Object.values(XBENCH_DIFFERENCES);
  expect(different.filter(({ answer }) => !explainedBy.some((applies) => applies(answer)))).toEqual([]);
  for (const applies of explainedBy) expect(different.some(({ answer }) => applies(answer))).toBe(true);
  expect(different.length).toBeLessThan(cases.length / 100);
});

/** Accepts an answer that repeats the question and its reference, as the evaluator of run.py does. */
const repeats = ({ question, reference, answer }: JudgeInputFields) => ({
  reason: "compared",
  stated: "",
  correct: answer === `${question}\n${reference}`,
});

test("WebWalkerQA: with a stand-in for the judge, our scorer gives 2,000 answers the scores of evaluate.py; the means, overall and by kind and difficulty, are those of its report", async () => {
  const rows = walkerRows();
  const { questions } = loadWebWalkerQa(written("walker.json", JSON.stringify(rows.map(({ task }) => task))));
  const judge = { model: scriptedJudge(repeats), config: judgeConfig() };
  const scorer = scorerOf({ benchmark: "webwalkerqa" }, "Compare.", () => judge) ?? expect.fail();
  const scores: number[] = [];
  const scored = new Map<string, number[]>();
  for (const [i, question] of questions.entries()) {
    const verdict = await scorer.correct(question, { answer: rows[i]?.answer ?? null } as Conversation);
    const score = typeof verdict === "number" ? verdict : verdict.score;
    scores.push(score);
    for (const category of categoriesOf("webwalkerqa", question))
      scored.set(category, [...(scored.get(category) ?? []), score]);
  }
  expect(scores.join("")).toBe(expected.webwalkerqa.scores);
  for (const kind of ["single_source", "multi_source"]) {
    for (const difficulty of ["easy", "medium", "hard"]) {
      const reported = expected.webwalkerqa.report[`${kind}_${difficulty}`] ?? Number.NaN;
      expect(mean(scored.get(`${kind} ${difficulty}`) ?? [])).toBeCloseTo(reported, 12);
    }
  }
  expect(mean(scores)).toBeCloseTo(expected.webwalkerqa.report["overall"] ?? Number.NaN, 12);
});
