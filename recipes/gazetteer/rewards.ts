/**
 * @file The rewards of gazetteer. `correct` compares answers. `expert` (eq 5) is a program: it reads the task in English and checks the
 * search, the pages and the report against it. As in atlas, a report counts only if the pages that the searcher opened show it. `expert` does
 * not judge whether the task was worth asking. A conversation that is only well-formed scores 0 in both.
 *
 * So a wrong report scores at most 0.5, and that only after the correct search (0.2) and the correct page (0.3); with a page that shows half
 * of the task's conditions, 0.35. A report without a page scores at most 0.2, and less if the search has more words than the task.
 * test/recipes/gazetteer/adversary.long.test.ts attacks these bounds.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Rewards } from "../../core/ports.ts";
import { expertScore, searchQueries, shareOf, visitedPages } from "../atlas/expert-score.ts";
import type { Asked, Condition } from "../atlas/questions/look-up.ts";
import { readTask, type Task } from "./questions/read-task.ts";
import { SMALL_AREA } from "./world/prose.ts";
import { type ProsePage, readPage } from "./world/read-page.ts";

export const rewards: Rewards = {
  correct: (question, conversation) => (same(conversation.answer, question.answer) ? 1 : 0),
  expert: (_question, _agent, conversation) => judge(conversation),
};

function judge(conversation: Conversation): number {
  const task = readTask(conversation.prompt);
  if (!task) return 0;
  const pages = visitedPages(conversation).flatMap((text) => readPage(text) ?? []);
  return expertScore({
    searched: Math.max(0, ...searchQueries(conversation).map((query) => queryScore(query, task, conversation.prompt))),
    visited: Math.max(0, ...pages.map((page) => relevance(task, page))),
    reported: isShown(task, conversation.answer, pages) ? 1 : 0,
  });
}

/**
 * The share of the task's names that a query contains as whole words, reduced in proportion if the query has more words than the task. 0 for a
 * query without words.
 */
function queryScore(query: string, { of, where }: Task, prompt: string): number {
  const names = of === undefined ? where.map(({ value }) => value) : [of];
  const words = wordsIn(query);
  if (words.length === 0) return 0;
  const named = shareOf(names, (name) => ` ${words.join(" ")} `.includes(` ${wordsIn(name).join(" ")} `));
  return named * Math.min(1, wordsIn(prompt).length / words.length);
}

/** Punctuation separates words as space does. */
const wordsIn = (text: string): readonly string[] => normalized(text).match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];

/**
 * How well a page fits the task. For a named country: 1 if it shows the fact, else 0. Otherwise: the largest share of the conditions that it
 * shows for any one country.
 */
function relevance({ ask, of, where }: Task, page: ProsePage): number {
  if (of !== undefined) return ask !== "country" && factsShown(page, ask, of).length > 0 ? 1 : 0;
  const shown = where.map((condition) => countriesShown(page, condition));
  return Math.max(0, ...shown.flat().map((country) => shareOf(shown, (countries) => countries.includes(country))));
}

/** Whether the opened pages show that the report is a correct answer to the task as worded. */
function isShown({ ask, of, where }: Task, answer: string | null, pages: readonly ProsePage[]): boolean {
  if (answer === null) return false;
  if (ask === "country") return meetsAll(normalized(answer), where, pages);
  const countries = of === undefined ? pages.flatMap((page) => countriesOf(page)) : [of];
  return countries
    .filter((country) => of !== undefined || meetsAll(normalized(country), where, pages))
    .some((country) => pages.some((page) => factsShown(page, ask, country).some((value) => same(answer, value))));
}

/** Whether the pages show every condition for the country, which is normalized. */
const meetsAll = (country: string, where: readonly Condition[], pages: readonly ProsePage[]): boolean =>
  where.every((condition) => pages.some((page) => countriesShown(page, condition).includes(country)));

/** The country of a page: the one that it is about, or whose capital it is about. */
const countriesOf = ({ title, facts }: ProsePage): readonly string[] => facts.get("country") ?? [title];

/** The values that a page shows for a fact about a country. None, unless the page is the country's or its capital's. */
function factsShown({ title, facts }: ProsePage, ask: Asked, of: string): readonly string[] {
  if (same(title, of)) return facts.get(ask) ?? [];
  return ask === "capital" && facts.get("country")?.some((country) => same(country, of)) ? [title] : [];
}

/** The countries, normalized, for which a page shows a condition: its own country, the country that its city is the capital of, or neighbors. */
function countriesShown({ title, facts }: ProsePage, { field, value }: Condition): readonly string[] {
  if (facts.get(field)?.some((one) => same(one, value))) return [normalized(title)];
  if (!same(title, value)) return [];
  const countries = field === "capital" ? facts.get("country") : field === "borders" ? facts.get("borders") : undefined;
  return countries?.map(normalized) ?? [];
}

function same(a: string | null | undefined, b: string): boolean {
  return a !== null && a !== undefined && normalized(a) === normalized(b);
}

const MEASURED = new RegExp(String.raw`^(\d+|${SMALL_AREA}) thousand (?:km2|square kilomet\w+)\.?$`);

/** Ignores case, the encoding of accents, extra space, the unit of an area, a leading "the" and a trailing period. */
const normalized = (text: string): string =>
  text
    .normalize("NFC")
    .toLowerCase()
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^the /, "")
    .replace(MEASURED, "$1")
    .replace(/\.$/, "");
