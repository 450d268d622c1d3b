/** @file Every held-out question can be answered with the real tools: a scripted team does it, using only what it reads. */

import { expect, test } from "vitest";
import type { Question } from "../../../core/contracts/question.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { parseTask, termsOf } from "../../../recipes/atlas/questions/look-up.ts";
import { questionSet } from "../../../recipes/atlas/questions/questions.ts";
import { tools } from "../../../recipes/atlas/tools.ts";
import { readPage } from "../../../recipes/atlas/world/read-page.ts";

const asked = { budget: openToolBudget(undefined), responseCharacters: 800, signal: new AbortController().signal };

function call(name: string, args: Record<string, string>, question: Question): Promise<string> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`no tool ${name}`);
  return tool.run(args as never, { question, ...asked });
}

/** The searcher's ideal: all terms in one query, the titles in order, the field or the name off the first page that fits. */
async function lookUp(task: string, question: Question): Promise<string> {
  const wanted = parseTask(task);
  if (!wanted) throw new Error(task);
  const terms = termsOf(wanted);
  for (const title of (await call("search", { query: terms.join(", ") }, question)).split("\n")) {
    const page = readPage(await call("visit", { title }, question));
    if (wanted.ask !== "country" && page.title === wanted.of) return page.fields.get(wanted.ask) ?? "";
    const fits = terms.every((term) => page.mentions.has(term.toLowerCase()));
    if (wanted.ask === "country" && fits) return page.fields.get("capital of") ?? page.title;
  }
  return "not found";
}

async function answer(question: Question): Promise<string> {
  const found: string[] = [];
  for (const { task } of Facts.parse(question.facts).lookUps) found.push(await lookUp(task, question));
  if (question.kind !== "compare") return found.at(-1) ?? "";
  const expression = found.join(question.prompt.startsWith("How much larger") ? " - " : " + ");
  return call("calculate", { expression }, question);
}

test("the scripted team answers every held-out question", async () => {
  const wrong: string[] = [];
  for (const question of questionSet(1).heldOut) {
    const given = await answer(question);
    if (given !== question.answer) wrong.push(`${question.prompt} ${given} instead of ${question.answer}`);
  }
  expect(wrong).toEqual([]);
});

test("and 240 training questions of all worlds", async () => {
  for (const question of questionSet(1).train.slice(0, 240))
    expect(await answer(question), question.prompt).toBe(question.answer);
});
