/**
 * @file Laws of tally: questions are about 0 to 20 people and share no village, a scripted team answers, demonstrations fit the limits, base
 * models match the recipe, and the expert scores reports.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Conversation, ToolCall } from "../../../core/contracts/conversation.ts";
import { questionsAsked } from "../../../core/contracts/evaluation-suite.ts";
import { type Question, QuestionSet } from "../../../core/contracts/question.ts";
import type { Invocation } from "../../../core/contracts/rollout.ts";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { plannerDemonstrations, searcherDemonstrations } from "../../../recipes/tally/demonstrations.ts";
import { PEOPLE_COUNTS, questionSet, villageAsked } from "../../../recipes/tally/questions.ts";
import { recipe } from "../../../recipes/tally/recipe.ts";
import { rewards } from "../../../recipes/tally/rewards.ts";
import { lookedUp, surveyed, tools } from "../../../recipes/tally/tools.ts";
import {
  entryOf,
  houseReport,
  housesOf,
  NAMES,
  parseTask,
  personReport,
  taskOf,
} from "../../../recipes/tally/world.ts";

const set = questionSet(1);
const config = resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" });

test("questions are valid, and no two share a village; a suite has each number of people equally often; the seed changes only training questions", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  const villages = [...set.train, ...set.heldOut].map(villageAsked);
  expect(new Set(villages).size).toBe(villages.length);
  for (const split of config.evaluation.suites.map((suite) => questionsAsked(suite, set.heldOut))) {
    for (const n of PEOPLE_COUNTS)
      expect(split.filter(({ kind }) => kind === `${n} people`)).toHaveLength(split.length / PEOPLE_COUNTS.length);
  }
  expect(questionSet(2).heldOut).toEqual(set.heldOut);
  expect(questionSet(2).train).not.toEqual(set.train);
});

/** A planner and a searcher that read only the question and what the tools return. `together`: they survey the house, not each of its people. */
function answer(question: Question, together: boolean): string {
  const [, field, house = "", people] = /^Total (\w+) of (\w+): (.*)$/.exec(question.prompt) ?? [];
  if (people === undefined) return calculateText(question.prompt.replace("Total of ", "").replaceAll(",", " +"));
  const village = villageAsked(question);
  const pages = together ? [surveyed(village, house)] : people.split(", ").map((name) => lookedUp(village, name));
  const numbers = pages.map((page) => new RegExp(`${field} (\\d+)`).exec(page)?.[1]);
  return calculateText(numbers.join(" + "));
}

test.each([true, false])("a scripted team answers every held-out question, each house in one task: %s", (together) => {
  expect(set.heldOut.filter((question) => answer(question, together) !== question.answer)).toEqual([]);
});

test.each([
  ["main", plannerDemonstrations],
  ["searcher", searcherDemonstrations],
] as const)("%s: every turn of a demonstration parses, within the limits, and only the last answers", (name, of) => {
  const agent = config.agents[name] ?? expect.fail();
  const toolbox = openToolbox(name, agent, tools);
  const sample: Demonstration[] = [];
  for (const one of of()) if (sample.push(one) === 400) break;
  for (const { turns } of sample) {
    expect(turns.length).toBeLessThanOrEqual(agent.limits.turns);
    turns.forEach(({ text, responses }, i) => {
      const parsed = parseTurn(text, toolbox, agent.limits.calls);
      expect(parsed.kind, text).toBe(i === turns.length - 1 ? "answer" : "calls");
      expect(responses).toHaveLength(parsed.kind === "calls" ? parsed.calls.length : 0);
      for (const response of responses) expect(response.length).toBeLessThanOrEqual(agent.limits.responseCharacters);
    });
  }
  const calls = sample.map(({ turns }) => turns.flatMap(({ responses }) => responses).length);
  if (name === "main") expect([Math.min(...calls), Math.max(...calls)]).toEqual([0, 21]);
});

test.each(recipe.baseModels ?? [])("$folder has the tokenizer, config and training settings of the recipe", (base) => {
  for (const [name, bytes] of base.files()) {
    const stored = readFileSync(join(base.folder, name));
    expect(stored.equals(Buffer.from(bytes)), `${name}: run npm run mgrpo -- pretrain tally`).toBe(true);
  }
  const record = JSON.parse(readFileSync(join(base.folder, "training.json"), "utf8"));
  expect(record).toMatchObject({ ...base.training, seed: base.seed });
});

const question = set.train.find(({ kind }) => kind === "4 people") ?? expect.fail();
const village = villageAsked(question);

const conversationOf = (prompt: string, call: ToolCall, answer: string): Conversation => {
  const turns = [{ text: "", calls: [call], responses: [{ name: call.name, text: "" }] }];
  return { prompt, stop: "answered", fault: null, answer, turns };
};

test("the expert pays for the look-up, the number and the page, and only if the task names a person who is looked up", async () => {
  const entry = entryOf(village, "Ada") ?? expect.fail();
  const page = lookedUp(village, "Ada");
  const score = (task: string, name: string, report: string) =>
    rewards.expert(question, "searcher", conversationOf(task, { name: "lookup", arguments: { name } }, report));
  const task = taskOf("coins", "Ada");
  expect(parseTask(task)).toEqual({ field: "coins", name: "Ada" });
  expect(await score(task, "Ada", personReport(entry.coins, page))).toBe(1);
  expect(await score(task, "Ada", personReport(entry.coins + 1, page))).toBeCloseTo(0.6, 12);
  // The report repeats one of the page's six fields, in its place.
  expect(await score(task, "Ada", `${entry.coins}: hens ${entry.hens}`)).toBeCloseTo(0.7 + 0.3 / 6, 12);
  expect(await score(task, "Ben", personReport(entry.coins, page))).toBe(0);
  expect(await score("what is it", "Ada", personReport(entry.coins, page))).toBe(0);
});

test("for a task about a house, the expert pays for the survey of that house and for the total", async () => {
  const [house, other] = housesOf(village).map(({ name }) => name);
  if (!house || !other) expect.fail();
  const total = entryOf(village, house)?.coins ?? expect.fail();
  const score = (name: string, arguments_: Record<string, string>, report: string) =>
    rewards.expert(
      question,
      "searcher",
      conversationOf(taskOf("coins", house), { name, arguments: arguments_ }, report),
    );
  expect(await score("survey", { house }, houseReport(total))).toBe(1);
  expect(await score("survey", { house }, houseReport(total + 1))).toBeCloseTo(0.3, 12);
  expect(await score("survey", { house: other }, houseReport(total))).toBe(0);
  expect(await score("lookup", { name: house }, houseReport(total))).toBe(0);
});

test("everybody lives in one house, which owns what its people own", () => {
  const houses = housesOf(village);
  expect(houses.flatMap(({ people }) => people).sort()).toEqual([...NAMES].sort());
  for (const { name, people } of houses) {
    const sum = people.reduce((total, person) => total + (entryOf(village, person)?.bees ?? 0), 0);
    expect(entryOf(village, name)?.bees).toBe(sum);
  }
  expect(surveyed(village, "Ada")).toBe("no house of that name");
  expect(lookedUp(village, houses[0]?.name ?? "")).toBe("nobody of that name");
});

test("the case studies count correct numbers of what was looked up, those of a person apart from those of a house", () => {
  const house = housesOf(village)[0]?.name ?? "";
  const bees = (name: string) => entryOf(village, name)?.bees ?? expect.fail();
  const [person, total] = [personReport(bees("Ada"), lookedUp(village, "Ada")), houseReport(bees(house))];
  const looked: ToolCall = { name: "lookup", arguments: { name: "Ada" } };
  const survey: ToolCall = { name: "survey", arguments: { house } };
  const conversations = [
    conversationOf(taskOf("bees", "Ada"), looked, person),
    conversationOf(taskOf("bees", house), survey, total),
    conversationOf(taskOf("bees", house), survey, person),
    conversationOf(taskOf("bees", house), looked, total),
    conversationOf("how many bees", survey, total),
  ];
  const invocations = conversations.map(
    (conversation) => ({ agent: "searcher", conversation }) as unknown as Invocation,
  );
  const conversation = conversations[0] ?? expect.fail();
  const counted = recipe.caseStudies?.map(({ checks }) => checks(question, { conversation, invocations }));
  expect(counted).toEqual([[true], [true, false, false]]);
});
