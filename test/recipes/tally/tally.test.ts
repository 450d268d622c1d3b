/**
 * @file Laws of tally: questions need 0 to 20 invocations and share no village, a scripted team answers, demonstrations fit the limits, base
 * models match the recipe, and the expert scores reports.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import { questionsAsked } from "../../../core/contracts/evaluation-suite.ts";
import { type Question, QuestionSet } from "../../../core/contracts/question.ts";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { plannerDemonstrations, searcherDemonstrations } from "../../../recipes/tally/demonstrations.ts";
import { INVOCATION_COUNTS, questionSet, villageAsked } from "../../../recipes/tally/questions.ts";
import { recipe } from "../../../recipes/tally/recipe.ts";
import { rewards } from "../../../recipes/tally/rewards.ts";
import { lookedUp, tools } from "../../../recipes/tally/tools.ts";
import { entryOf, parseTask, reportOf, taskOf } from "../../../recipes/tally/world.ts";

const set = questionSet(1);
const config = resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" });

test("questions are valid, and no two share a village; a suite has each number of invocations equally often; the seed changes only training questions", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  const villages = [...set.train, ...set.heldOut].map(villageAsked);
  expect(new Set(villages).size).toBe(villages.length);
  for (const split of config.evaluation.suites.map((suite) => questionsAsked(suite, set.heldOut))) {
    for (const n of INVOCATION_COUNTS)
      expect(split.filter(({ kind }) => kind === `${n} calls`)).toHaveLength(split.length / 8);
  }
  expect(questionSet(2).heldOut).toEqual(set.heldOut);
  expect(questionSet(2).train).not.toEqual(set.train);
});

/** A planner and a searcher that read only the question and what the tools return. */
function answer(question: Question): string {
  const [, field, people] = /^Total (\w+) of ([A-Z].*)$/.exec(question.prompt) ?? [];
  const given = question.prompt.replace("Total of ", "").split(", ");
  const numbers = people?.split(", ").map((name) => {
    const page = lookedUp(villageAsked(question), name);
    return new RegExp(`${field} (\\d+)`).exec(page)?.[1];
  });
  return calculateText((numbers ?? given).join(" + "));
}

test("a scripted team answers every held-out question", () => {
  expect(set.heldOut.filter((question) => answer(question) !== question.answer)).toEqual([]);
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

test("the expert pays for the look-up, the number and the page, and only if the task names a person who is looked up", async () => {
  const question = set.train.find(({ kind }) => kind === "1 calls") ?? expect.fail();
  const village = villageAsked(question);
  const entry = entryOf(village, "Ada") ?? expect.fail();
  const page = lookedUp(village, "Ada");
  const score = (task: string, looked: string, report: string) => {
    const call = { name: "lookup", arguments: { name: looked } };
    const turns = [{ text: "", calls: [call], responses: [{ name: "lookup", text: page }] }];
    const conversation: Conversation = { prompt: task, stop: "answered", fault: null, answer: report, turns };
    return rewards.expert(question, "searcher", conversation);
  };
  const task = taskOf("coins", "Ada");
  expect(parseTask(task)).toEqual({ field: "coins", name: "Ada" });
  expect(await score(task, "Ada", reportOf(entry.coins, page))).toBe(1);
  expect(await score(task, "Ada", reportOf(entry.coins + 1, page))).toBeCloseTo(0.6, 12);
  // The report repeats one of the page's six fields, in its place.
  expect(await score(task, "Ada", `${entry.coins}: hens ${entry.hens}`)).toBeCloseTo(0.7 + 0.3 / 6, 12);
  expect(await score(task, "Ben", reportOf(entry.coins, page))).toBe(0);
  expect(await score("what is it", "Ada", reportOf(entry.coins, page))).toBe(0);
});
