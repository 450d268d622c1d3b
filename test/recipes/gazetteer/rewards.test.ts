/** @file Worked cases of gazetteer's rewards; under the recipe's own weights, a correct format alone earns nothing. */
import { describe, expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { mainReward, subReward } from "../../../core/mgrpo/reward.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { recipe } from "../../../recipes/gazetteer/recipe.ts";
import { rewards } from "../../../recipes/gazetteer/rewards.ts";
import { pageText, searchTitles } from "../../../recipes/gazetteer/tools.ts";

const question: Question = {
  id: "q",
  kind: "hop2",
  level: 2,
  prompt: "What is the currency of the country that has the capital Amman?",
  answer: "Jordanian dinar",
  facts: {
    world: 0,
    chain: "has the capital Amman & currency",
    lookUps: [
      { task: "country with capital Amman", answer: "Jordan" },
      { task: "currency of Jordan", answer: "Jordanian dinar" },
    ],
  },
};

const main = (answer: string | null): Conversation => ({
  prompt: question.prompt,
  turns: [],
  stop: "answered",
  answer,
  fault: null,
});

type Step = readonly ["search" | "visit", string];

/** One search, then one page. */
const look = (query: string, title: string): readonly Step[] => [
  ["search", query],
  ["visit", title],
];

/** The expert's score of a searcher in the real world: its searches and visits, then its report (null: none). */
function expert(prompt: string, steps: readonly Step[], answer: string | null) {
  const turns = steps.map(([name, text]) => ({
    text: "",
    calls: [{ name, arguments: name === "search" ? { query: text } : { title: text } }],
    responses: [{ name, text: name === "search" ? searchTitles(0, text) : pageText(0, text) }],
  }));
  const stop = answer === null ? "turn-limit" : "answered";
  return rewards.expert(question, "searcher", { prompt, turns, stop, answer, fault: null });
}

describe("correct", () => {
  test.each([
    ["Jordanian dinar", 1],
    ["the Jordanian Dinar.", 1],
    ["Jordan", 0],
    ["dinar", 0],
    ["", 0],
    [null, 0],
  ])("%j scores %d", (answer, score) => expect(rewards.correct(question, main(answer))).toBe(score));
  test.each(["89", "89 thousand km2", "89 thousand square kilometers."])(
    "an area is correct with and without its unit: %s",
    (given) => {
      expect(rewards.correct({ ...question, answer: "89" }, main(given))).toBe(1);
    },
  );
});

test("a correct format alone earns neither agent anything; a correct report earns over half even if the team's answer is wrong", () => {
  const { algorithm } = resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" });
  expect(mainReward(true, 0, algorithm.mainReward)).toBe(0);
  expect(mainReward(true, 1, algorithm.mainReward)).toBe(1);
  expect(subReward(true, 0, Number(expert("Find the currency of Jordan.", [], "Amman")), algorithm.subReward)).toBe(0);
  expect(subReward(true, 0, 1, algorithm.subReward)).toBeGreaterThan(0.5);
  expect(subReward(true, 1, 1, algorithm.subReward)).toBeCloseTo(1);
});

// The expert: 0.2 for a search with the names in the task, 0.3 for the page, 0.5 for the report.
const TASK = "Find the currency of Jordan.";
const JORDAN = look("Jordan", "Jordan");
const BOTH = "Which country borders Iraq and uses the Jordanian dinar?";
const AMMAN = look("Amman", "Amman");

test.each<[string, string, readonly Step[], string | null, number]>([
  ["a look-up on the chain", TASK, JORDAN, "Jordanian dinar", 1],
  ["a look-up in other words", "What money do people use in Jordan?", JORDAN, "the Jordanian dinar", 1],
  ["a query in a sentence", TASK, look("currency of Jordan", "Jordan"), "Jordanian dinar", 1],
  ["the wrong field of the correct page", TASK, JORDAN, "Amman", 0.5],
  ["no report", TASK, JORDAN, null, 0.5],
  ["the wrong page, and a report from it", TASK, look("Jordan", "Egypt"), "Egyptian pound", 0.2],
  ["a correct report of a fact on the chain without a look-up", TASK, [], "Jordanian dinar", 0],
  [
    "a country by its capital, from the capital's page",
    "Find the country that is governed from Amman.",
    AMMAN,
    "Jordan",
    1,
  ],
  ["two conditions", BOTH, look("Iraq, Jordanian dinar", "Jordan"), "Jordan", 1],
  // The query names one of two conditions, 0.2 * 1/2; Iraq's page shows one, 0.3 * 1/2; Syria meets only one, so the report earns 0.
  ["half of two conditions", BOTH, look("Iraq", "Iraq"), "Syria", 0.25],
  [
    "a vague task: any neighbor that a page shows",
    "Find the country that borders Iraq.",
    look("Iraq", "Iraq"),
    "Syria",
    1,
  ],
  [
    "a vague task: a country that no page shows",
    "Find the country that borders Iraq.",
    look("Iraq", "Iraq"),
    "Chad",
    0.5,
  ],
  [
    "a fact off the chain, judged by the page",
    "What is the area of Chad?",
    look("Chad", "Chad"),
    "1284 thousand km2",
    1,
  ],
  ["a fact off the chain that no page shows", "What is the area of Chad?", [["search", "Chad"]], "1284", 0.2],
  ["the whole chain in one task", question.prompt, [...AMMAN, ["visit", "Jordan"]], "Jordanian dinar", 1],
  ["the whole chain, one hop short", question.prompt, AMMAN, "Jordan", 0.5],
  ["a task that asks for nothing", "tell me about Jordan", JORDAN, "Jordanian dinar", 0],
  ["a search without words for a name without letters", "Which country borders !!?", [["search", "?"]], null, 0],
])("expert: %s", (_, prompt, steps, answer, score) => expect(expert(prompt, steps, answer)).toBeCloseTo(score));
