/** @file The reasoning-gym suite: the committed questions, the table of recorded results, refused files, and each scoring rule by hand. official.test.ts has thousands more cases. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { categoriesOf } from "../../../adapters/benchmarks/categories.ts";
import { loadReasoningGym } from "../../../adapters/benchmarks/reasoning-gym.ts";
import { GymTask, gymScore } from "../../../adapters/benchmarks/reasoning-gym-score.ts";
import { scorerOf } from "../../../adapters/benchmarks/scorers.ts";
import { submissionFiles } from "../../../adapters/benchmarks/submission.ts";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { SuiteQuestions } from "../../../core/contracts/question.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const EASY = join(ROOT, "bench/reasoning-gym/easy.jsonl");
const folder = mkdtempSync(join(tmpdir(), "gym-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(...entries: readonly object[]): string {
  const file = join(folder, "entries.jsonl");
  writeFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
  return file;
}

const entry = (source_dataset: string, source_index: number) => ({
  question: "What is 1 + 1?\n",
  answer: "2",
  metadata: { source_dataset, source_index, difficulty: { num_terms: [2, 6] } },
});

test("each task has 50 committed questions; a reference answer scores 1, a missing or empty answer 0", async () => {
  const { questions } = SuiteQuestions.parse(loadReasoningGym(EASY));
  for (const task of GymTask.options) expect(questions.filter(({ kind }) => kind === task)).toHaveLength(50);
  expect(questions).toHaveLength(350);
  const scorer = scorerOf({ benchmark: "reasoning-gym" }, undefined, () => expect.fail("no judge")) ?? expect.fail();
  for (const question of questions) {
    const conversation = (answer: string | null) => ({ answer }) as Conversation;
    expect(await scorer.correct(question, conversation(question.answer))).toBe(1);
    expect(await scorer.correct(question, conversation(null))).toBe(0);
    expect(await scorer.correct(question, conversation(""))).toBe(0);
    expect(categoriesOf("reasoning-gym", question)).toEqual([question.kind]);
  }
  const [first = expect.fail()] = questions;
  expect(() => scorer.correct({ ...first, kind: "chess" }, { answer: "" } as Conversation)).toThrow(
    `the kind of question '${first.id}': `,
  );
});

test("an entry of the generator becomes a question; its submission names it as the generator does", () => {
  const set = loadReasoningGym(written(entry("chain_sum", 7), entry("family_relationships", 7)));
  expect(set.questions).toEqual([
    {
      ...{ id: "chain_sum:7", kind: "chain_sum", level: 1, prompt: "What is 1 + 1?", answer: "2" },
      facts: { index: 7 },
    },
    expect.objectContaining({ id: "family_relationships:7", level: 2 }),
  ]);
  const answered = [{ answer: "2" }, { answer: null }] as Conversation[];
  const lines = submissionFiles("reasoning-gym", set, [answered]).get("submission-run1.jsonl")?.trim().split("\n");
  expect(lines?.map((line) => JSON.parse(line))).toEqual([
    { source_dataset: "chain_sum", source_index: 7, answer: "2" },
    { source_dataset: "family_relationships", source_index: 7, answer: "" },
  ]);
});

test.each([
  ["a task without a scoring rule here", [entry("sudoku", 0)], /row 1: metadata\.source_dataset: /],
  ["the same entry twice", [entry("products", 3), entry("products", 3)], /row 2: its id 'products:3' is also/],
  ["other data", [{ prompt: "?", answer: "!" }], /row 1: it has no question, metadata: this is not reasoning-gym/],
])("%s is refused", (_what, entries, line) => {
  expect(() => loadReasoningGym(written(...entries))).toThrow(line);
});

type Case = readonly [task: GymTask, answer: string, reference: string, score: number];

const RULES: Record<string, readonly Case[]> = {
  "basic_arithmetic, leg_counting: the reference's share of the characters, counted by code point": [
    ["basic_arithmetic", "12", "12", 1],
    ["basic_arithmetic", "= 12", "12", 0.5],
    ["leg_counting", "12 🦀", "12", 0.5],
    ["leg_counting", "12.0", "12", 0.5],
    ["leg_counting", "13", "12", 0],
  ],
  "chain_sum, products: an equal number scores 1; otherwise the reference's share of the answer without commas": [
    ["chain_sum", "+01,000.00", "1000", 1],
    ["products", "1e3", "1000", 1],
    ["products", "1_000 ", "1000", 1],
    ["products", "١٠٠٠", "1000", 1],
    ["chain_sum", "-0.0", "0", 1],
    ["chain_sum", "1,000 it", "1000", 4 / 7],
    ["chain_sum", "-1000", "1000", 4 / 5],
    ["chain_sum", "nan", "1000", 0],
    // Doubles cannot tell these apart; decimals can.
    ["products", "9007199254740993", "9007199254740992", 0],
  ],
  "decimal_chain_sum: only the bare number scores": [
    ["decimal_chain_sum", " -67.68770 ", "-67.6877", 1],
    ["decimal_chain_sum", "-67.6877 m", "-67.6877", 0],
    ["decimal_chain_sum", "1,000.5", "1000.5", 0],
  ],
  "gsm_symbolic: another number still scores 0.01, as in the reference implementation; a minus sign counts only after a word character":
    [
      ["gsm_symbolic", "about 342 in total", "342", 1],
      ["gsm_symbolic", "342.0", "342", 1],
      ["gsm_symbolic", "12 and 342", "342", 0.01],
      ["gsm_symbolic", "-342", "342", 1],
      ["gsm_symbolic", "x-342", "342", 0.01],
      ["gsm_symbolic", "342km", "342", 0],
      ["gsm_symbolic", "1.5x", "1", 1],
      ["gsm_symbolic", "none", "342", 0],
    ],
  "family_relationships: case and surrounding whitespace are ignored": [
    ["family_relationships", " Mother\n", "mother", 1],
    ["family_relationships", "mother.", "mother", 0],
  ],
};

describe.each(Object.entries(RULES))("%s", (_rule, cases) => {
  test.each(cases)("%s: %j for %j scores %d", (task, answer, reference, score) => {
    expect(gymScore(task, answer, reference)).toBeCloseTo(score, 12);
  });
});

interface Scored {
  readonly n: number;
  readonly correct: number;
}
interface RecordedResult extends Scored {
  readonly groups: readonly (Scored & { readonly group: string })[];
  readonly interval: { readonly low: number; readonly high: number };
}

test.each([
  ["warm start", "before"],
  ["after M-GRPO", "after"],
])("the row '%s' of docs/benchmarks.md has the scores of results/reasoning-gym/%s.json", (row, name) => {
  const recorded = JSON.parse(readFileSync(join(ROOT, `results/reasoning-gym/${name}.json`), "utf8")) as RecordedResult;
  const { groups, interval } = recorded;
  const percent = ({ correct, n }: Scored) => (100 * correct) / n;
  const [low, high] = [100 * interval.low, 100 * interval.high].map((bound) => bound.toFixed(1));
  const scores = groups.map((group) => percent(group).toFixed(0));
  const cells = [row, ...scores, `${percent(recorded).toFixed(1)} [${low}, ${high}]`];
  const lines = readFileSync(join(ROOT, "docs/benchmarks.md"), "utf8").split("\n");
  expect(lines).toContain(`| ${cells.join(" | ")} |`);
  expect(lines).toContain(`| | ${groups.map(({ group }) => `\`${group}\``).join(" | ")} | all, with 95% interval |`);
});
