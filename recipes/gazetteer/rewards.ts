/**
 * @file The rewards of gazetteer. `correct` compares answers. `expert` (eq 5) is a program: it reads the task, knows the answers on the
 * question's chain from `question.facts`, and holds the report on any other task against the pages that the searcher opened. It does not
 * judge whether the task was worth asking. A conversation that is only well-formed scores 0 in both.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Rewards } from "../../core/ports.ts";
import { expertScore, searchQueries, shareOf, visitedPages } from "../atlas/expert-score.ts";
import { factsOf } from "../atlas/questions/facts.ts";
import { type Condition, parseTask } from "../atlas/questions/look-up.ts";
import { readTask, type Task } from "./questions/read-task.ts";
import { type Page, readPage } from "./world/read-page.ts";

export const rewards: Rewards = {
  correct: (question, conversation) => (same(conversation.answer, question.answer) ? 1 : 0),
  expert: (question, _agent, conversation) => judge(question, conversation),
};

function judge(question: Question, conversation: Conversation): number {
  const task = readTask(conversation.prompt);
  if (!task) return 0;
  const pages = visitedPages(conversation).flatMap((text) => readPage(text) ?? []);
  return expertScore({
    searched: bestSearch(task, conversation),
    visited: Math.max(0, ...pages.map((page) => aboutness(task, page))),
    reported: reported(question, task, conversation.answer, pages),
  });
}

/** The largest share of the task's names in any one search. */
function bestSearch(task: Task, conversation: Conversation): number {
  const names = task.of === undefined ? task.where.map(({ value }) => value) : [task.of];
  const queries = searchQueries(conversation).map(normal);
  return Math.max(0, ...queries.map((query) => shareOf(names, (name) => query.includes(normal(name)))));
}

/** How well a page fits the task: it is the named country's page, or it states the conditions. */
function aboutness({ of, where }: Task, page: Page): number {
  if (of !== undefined) return same(page.title, of) ? 1 : 0;
  return shareOf(where, (condition) => countryShown(page, condition).length > 0);
}

function reported(question: Question, task: Task, answer: string | null, pages: readonly Page[]): number {
  if (answer === null) return 0;
  const known = answerOnChain(question, task);
  if (known !== undefined) return same(answer, known) ? 1 : 0;
  const { ask, of, where } = task;
  if (ask === "country") {
    return shareOf(where, (condition) =>
      pages.some((page) => countryShown(page, condition).some((country) => same(answer, country))),
    );
  }
  const countries = pages.filter((page) => fits(page, of, where, pages));
  return countries.some(({ facts }) => facts.get(ask)?.some((value) => same(answer, value))) ? 1 : 0;
}

/** The answer to a task of the question's chain, or to the whole chain in one task. */
function answerOnChain(question: Question, task: Task): string | undefined {
  const chain = factsOf(question).lookUps.map(({ task: text, answer }) => ({ lookUp: parseTask(text), answer }));
  for (const [i, { lookUp, answer }] of chain.entries()) {
    if (lookUp === undefined) continue;
    if (lookUp.ask !== "country") {
      if (task.ask === lookUp.ask && same(task.of, lookUp.of)) return answer;
      continue;
    }
    if (task.of !== undefined || !sameConditions(task.where, lookUp.where)) continue;
    if (task.ask === "country") return answer;
    const next = chain[i + 1];
    if (next?.lookUp?.ask === task.ask) return next.answer;
  }
  return undefined;
}

const sameConditions = (a: readonly Condition[], b: readonly Condition[]): boolean =>
  a.length === b.length &&
  a.every((one) => b.some((other) => one.field === other.field && same(one.value, other.value)));

/** Whether it is the page of the country that is named, or for which the opened pages show all conditions. */
function fits(page: Page, of: string | undefined, where: readonly Condition[], pages: readonly Page[]): boolean {
  if (of !== undefined) return same(page.title, of);
  return where.every((condition) =>
    pages.some((other) => countryShown(other, condition).some((country) => same(page.title, country))),
  );
}

/** The countries for which a page shows a condition: the page's own, that of its capital, or those of its neighbors. */
function countryShown({ title, facts }: Page, { field, value }: Condition): readonly string[] {
  if (facts.get(field)?.some((one) => same(one, value))) return [title];
  if (!same(title, value)) return [];
  return (field === "capital" ? facts.get("country") : field === "borders" ? facts.get("borders") : undefined) ?? [];
}

function same(a: string | null | undefined, b: string): boolean {
  return a !== null && a !== undefined && normal(a) === normal(b);
}

/** Ignores case, the encoding of accents, repeated space, a unit of area, an article before and a period after. */
const normal = (text: string): string =>
  text
    .normalize("NFC")
    .toLowerCase()
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^the /, "")
    .replace(/ thousand (?:km2|square kilomet\w+)\.?$/, "")
    .replace(/\.$/, "");
