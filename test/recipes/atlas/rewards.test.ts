/** @file The rewards of atlas on worked cases. */
import { describe, expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { rewards } from "../../../recipes/atlas/rewards.ts";
import { pageText, searchTitles } from "../../../recipes/atlas/tools.ts";

const question: Question = {
  id: "q",
  kind: "hop-constraints",
  level: 3,
  prompt: "What is the capital of the country that borders Iraq and uses the Jordanian dinar?",
  answer: "Amman",
  facts: {
    world: 0,
    chain: "borders Iraq & uses the Jordanian dinar",
    lookUps: [
      { task: "country with borders Iraq, currency Jordanian dinar", answer: "Jordan" },
      { task: "capital of Jordan", answer: "Amman" },
    ],
  },
};

/** A searcher's conversation in the real world: its searches and visits, then its report (null: none). */
function searcher(prompt: string, steps: readonly (readonly ["search" | "visit", string])[], answer: string | null) {
  const turns = steps.map(([name, text]) => ({
    text: "",
    calls: [{ name, arguments: name === "search" ? { query: text } : { title: text } }],
    responses: [{ name, text: name === "search" ? searchTitles(0, text) : pageText(0, text) }],
  }));
  const conversation: Conversation = {
    prompt,
    turns,
    stop: answer === null ? "turn-limit" : "answered",
    answer,
    fault: null,
  };
  return conversation;
}

const main = (answer: string | null): Conversation => ({
  prompt: question.prompt,
  turns: [],
  stop: "answered",
  answer,
  fault: null,
});
const expert = (conversation: Conversation) => rewards.expert(question, "searcher", conversation);

/** The expert's score of a searcher that searches once, opens one page and reports. */
const scoreOf = (task: string, query: string, title: string, report: string | null) =>
  expert(
    searcher(
      task,
      [
        ["search", query],
        ["visit", title],
      ],
      report,
    ),
  );

describe("correct", () => {
  test.each([
    ["Amman", 1],
    [" amman ", 1],
    ["Jordan", 0],
    ["", 0],
    [null, 0],
  ])("%j scores %d", (answer, score) => expect(rewards.correct(question, main(answer))).toBe(score));
});

// The expert: 0.2 for a search with the names in the task, 0.3 for the page, 0.5 for the report.
const both = "country with borders Iraq, currency Jordanian dinar";
test("expert: a correct look-up scores 1", () => {
  expect(scoreOf("capital of Jordan", "Jordan", "Jordan", "Amman")).toBe(1);
  expect(scoreOf(both, "Iraq, Jordanian dinar", "Jordan", "Jordan")).toBe(1);
});
test("expert: a query with one of the task's two conditions earns half of the credit for the search", () => {
  // The query has one of two terms, 0.2 * 1/2; Iraq's page shows one condition, 0.3 * 1/2; Syria meets only one, so the report earns 0.
  expect(scoreOf(both, "Iraq", "Iraq", "Syria")).toBeCloseTo(0.25);
});
test("expert: the wrong field of the correct page earns no credit for the report", () => {
  expect(scoreOf("capital of Jordan", "Jordan", "Jordan", "Western Asia")).toBeCloseTo(0.5);
});
test("expert: the wrong page and a report from it earn no credit", () => {
  expect(scoreOf("capital of Jordan", "Jordan", "Syria", "Damascus")).toBeCloseTo(0.2);
});
test("expert: a correct report that no opened page shows is a guess: it earns no credit", () => {
  expect(expert(searcher("capital of Jordan", [], "Amman"))).toBe(0);
  expect(expert(searcher("capital of Jordan", [["search", "Jordan"]], "Amman"))).toBeCloseTo(0.2);
  // Iraq's page shows that Jordan borders Iraq, not which currency Jordan has: 0.3 * 1/2.
  expect(expert(searcher(both, [["visit", "Iraq"]], "Jordan"))).toBeCloseTo(0.15);
});
test("expert: a country for which only some conditions hold is wrong, whichever page was opened", () => {
  expect(scoreOf(both, "Iraq, Jordanian dinar", "Syria", "Syria")).toBeCloseTo(0.2 + 0.3 / 2);
  expect(scoreOf(both, "Iraq, Jordanian dinar", "Jordan", "Syria")).toBeCloseTo(0.5);
  const off = "country with borders Egypt, currency Libyan dinar";
  expect(scoreOf(off, "Egypt, Libyan dinar", "Sudan", "Sudan")).toBeCloseTo(0.35);
  expect(scoreOf(off, "Egypt, Libyan dinar", "Libya", "Libya")).toBe(1);
});
test("expert: a condition counts only in its own field", () => {
  // Jordan's page names Amman, as its capital, and Iraq, as a neighbor.
  const swapped = "country with capital Iraq, borders Amman";
  expect(expert(searcher(swapped, [["visit", "Jordan"]], "Jordan"))).toBe(0);
});
test("expert: a query is worth the Jaccard index of its terms and the task's", () => {
  // 2 of 4 terms.
  expect(expert(searcher(both, [["search", "Iraq, Jordanian dinar, Syria, Egypt"]], null))).toBeCloseTo(0.2 / 2);
});
test("expert: a search and a page earn credit even without a report", () => {
  expect(scoreOf("capital of Jordan", "Jordan", "Jordan", null)).toBeCloseTo(0.5);
});

test("expert: a vague task is judged as worded: any neighbor that the pages confirm is correct", () => {
  const vague = "country with borders Iraq";
  expect(scoreOf(vague, "Iraq", "Iraq", "Syria")).toBe(1);
  expect(scoreOf(vague, "Iraq", "Syria", "Syria")).toBe(1);
  expect(scoreOf(vague, "Iraq", "Iraq", "Egypt")).toBeCloseTo(0.5);
});
test("expert: a task off the chain is judged by the pages opened", () => {
  const off = "currency of Egypt";
  expect(scoreOf(off, "Egypt", "Egypt", "Egyptian pound")).toBe(1);
  expect(scoreOf(off, "Egypt", "Egypt", "Arabic")).toBeCloseTo(0.5);
  expect(expert(searcher(off, [["search", "Egypt"]], "Egyptian pound"))).toBeCloseTo(0.2);
});
test("expert: the capital's page or the country's own is correct for a country described by its capital", () => {
  const task = "country with capital Cairo";
  for (const title of ["Cairo", "Egypt"]) expect(scoreOf(task, "Cairo", title, "Egypt")).toBe(1);
});
test("expert: a task that does not parse scores 0", () => {
  expect(expert(searcher("tell me about Jordan", [["visit", "Jordan"]], "Amman"))).toBe(0);
});
