/**
 * @file The rewards of atlas. `correct` compares answers. `expert` (eq 5) is a program: it parses the task into its look-up, knows the
 * correct answers on the question's chain from `question.facts`, and checks the report on any other task against the pages that the
 * searcher opened. It does not judge whether the task was worth asking.
 */

import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Rewards } from "../../core/ports.ts";
import { expertScore, searchQueries, shareOf, visitedPages } from "./expert-score.ts";
import { factsOf } from "./questions/facts.ts";
import { type LookUp, parseTask, termsOf } from "./questions/look-up.ts";
import { type Page, readPage } from "./world/read-page.ts";

export const rewards: Rewards = {
  correct: (question, conversation) => (same(conversation.answer, question.answer) ? 1 : 0),
  expert: (question, _agent, conversation) => judge(question, conversation),
};

function judge(question: Question, conversation: Conversation): number {
  const lookUp = parseTask(conversation.prompt);
  if (!lookUp) return 0;
  const pages = visitedPages(conversation).map(readPage);
  return expertScore({
    searched: bestSearch(lookUp, conversation),
    visited: Math.max(0, ...pages.map((page) => aboutness(lookUp, page))),
    reported: reported(question, lookUp, conversation, pages),
  });
}

/** The largest share of the task's terms in any one search. */
function bestSearch(lookUp: LookUp, conversation: Conversation): number {
  const terms = termsOf(lookUp);
  const queries = searchQueries(conversation).map(termsIn);
  return Math.max(0, ...queries.map((query) => shareOf(terms, (term) => query.has(normal(term)))));
}

/** How well a page fits the task: it is the named page, or it shows the conditions. */
function aboutness(lookUp: LookUp, page: Page): number {
  if (lookUp.ask !== "country") return same(page.title, lookUp.of) ? 1 : 0;
  return shareOf(lookUp.where, ({ value }) => page.mentions.has(normal(value)));
}

function reported(
  question: Question,
  lookUp: LookUp,
  { prompt, answer }: Conversation,
  pages: readonly Page[],
): number {
  if (answer === null) return 0;
  const known = factsOf(question).lookUps.find(({ task }) => same(task, prompt));
  if (known) return same(answer, known.answer) ? 1 : 0;
  if (lookUp.ask !== "country") {
    return pages.some((page) => same(page.title, lookUp.of) && same(page.fields.get(lookUp.ask), answer)) ? 1 : 0;
  }
  return shareOf(lookUp.where, (condition) => pages.some((page) => shows(page, answer, condition)));
}

/** Whether a page shows that a condition holds for a country: the country's own page, or that of its capital or neighbor. */
function shows(page: Page, country: string, { field, value }: { field: string; value: string }): boolean {
  const read = (name: string, text: string) =>
    normal(page.fields.get(name) ?? "")
      .split(", ")
      .includes(normal(text));
  if (same(page.title, country)) return read(field === "language" ? "languages" : field, value);
  if (!same(page.title, value)) return false;
  return field === "borders" ? read("borders", country) : field === "capital" && read("capital of", country);
}

const termsIn = (query: string): Set<string> => new Set(query.split(",").map(normal));

export function same(a: string | null | undefined, b: string): boolean {
  return a !== null && a !== undefined && normal(a) === normal(b);
}

/** Ignores case, the encoding of accents, and surrounding or repeated space. */
const normal = (text: string): string => text.normalize("NFC").toLowerCase().replace(/\s+/g, " ").trim();
