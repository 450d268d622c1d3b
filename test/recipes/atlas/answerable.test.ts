/** @file Questions can be answered with the real tools: a scripted team does so, from the tasks of each question and what it reads. */
import { expect, test } from "vitest";
import type { Question } from "../../../core/contracts/question.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { parseTask, termsOf } from "../../../recipes/atlas/questions/look-up.ts";
import { questionSet } from "../../../recipes/atlas/questions/questions.ts";
import { tools } from "../../../recipes/atlas/tools.ts";
import { readPage } from "../../../recipes/atlas/world/read-page.ts";
import { address } from "../../fakes/conversations.ts";

const context = {
  address,
  budget: openToolBudget(undefined),
  responseCharacters: 800,
  signal: new AbortController().signal,
};

function callTool(name: string, args: Record<string, string>, question: Question): Promise<string> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`no tool ${name}`);
  return tool.run(args as never, { question, ...context });
}

/** An ideal searcher: one query with all terms, then the titles in order until a page has the answer. */
async function lookUp(task: string, question: Question): Promise<string> {
  const sought = parseTask(task);
  if (!sought) throw new Error(`not a task: ${task}`);
  const terms = termsOf(sought);
  for (const title of (await callTool("search", { query: terms.join(", ") }, question)).split("\n")) {
    const page = readPage(await callTool("visit", { title }, question));
    if (sought.ask !== "country" && page.title === sought.of) return page.fields.get(sought.ask) ?? "";
    const mentioned = [page.title, ...[...page.fields.values()].flatMap((value) => value.split(", "))];
    const mentionsAll = terms.every((term) => mentioned.includes(term));
    if (sought.ask === "country" && mentionsAll) return page.fields.get("capital of") ?? page.title;
  }
  return "not found";
}

async function answer(question: Question): Promise<string> {
  const findings: string[] = [];
  for (const { task } of Facts.parse(question.facts).lookUps) findings.push(await lookUp(task, question));
  if (question.kind !== "compare") return findings.at(-1) ?? "";
  const expression = findings.join(question.prompt.startsWith("How much larger") ? " - " : " + ");
  return callTool("calculate", { expression }, question);
}

test("the scripted team answers every held-out question", async () => {
  const wrong: string[] = [];
  for (const question of questionSet(1).heldOut) {
    const given = await answer(question);
    if (given !== question.answer) wrong.push(`${question.prompt} ${given} instead of ${question.answer}`);
  }
  expect(wrong).toEqual([]);
});

test("the scripted team answers the first 240 training questions", async () => {
  for (const question of questionSet(1).train.slice(0, 240))
    expect(await answer(question), question.prompt).toBe(question.answer);
});
