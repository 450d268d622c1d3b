/**
 * @file The rewards of atlas. `correct` compares answers. `expert` (eq 5) is a program: it parses the task into its look-up and checks the
 * search, the pages and the report against it. A report counts only if the pages that the searcher opened show it, in the field that the
 * task asks for and for every condition of the task: a guess earns nothing, nor does a country that meets only some conditions. `expert` does
 * not judge whether the task was worth asking.
 *
 * So a wrong report scores at most 0.5, and that only after the right search (0.2) and the right page (0.3); with a page that shows half of
 * the task's conditions, 0.35. A report without a page scores at most 0.2. test/recipes/atlas/adversary.test.ts attacks these bounds.
 */

import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Rewards } from "../../core/ports.ts";
import { expertScore, searchQueries, shareOf, visitedPages } from "./expert-score.ts";
import { type Condition, type LookUp, parseTask, termsOf } from "./questions/look-up.ts";
import { type Page, readPage } from "./world/read-page.ts";

export const rewards: Rewards = {
  correct: (question, conversation) => (same(conversation.answer, question.answer) ? 1 : 0),
  expert: (_question, _agent, conversation) => judge(conversation),
};

function judge(conversation: Conversation): number {
  const lookUp = parseTask(conversation.prompt);
  if (!lookUp) return 0;
  const pages = visitedPages(conversation).map(readPage);
  return expertScore({
    searched: bestSearch(lookUp, conversation),
    visited: Math.max(0, ...pages.map((page) => relevance(lookUp, page))),
    reported: isShown(lookUp, conversation.answer, pages) ? 1 : 0,
  });
}

/** The Jaccard index of the task's terms and the best search's. */
function bestSearch(lookUp: LookUp, conversation: Conversation): number {
  const terms = new Set(termsOf(lookUp).map(normalized));
  const overlaps = searchQueries(conversation).map((query) => {
    const queried = new Set(query.split(",").map(normalized));
    const common = [...queried].filter((term) => terms.has(term));
    return common.length / new Set([...terms, ...queried]).size;
  });
  return Math.max(0, ...overlaps);
}

/**
 * How well a page fits the task. For a fact: 1 if it shows the fact, else 0. For a country: the largest share of the conditions that it shows
 * for any one country.
 */
function relevance(lookUp: LookUp, page: Page): number {
  if (lookUp.ask !== "country") return factShown(page, lookUp) === undefined ? 0 : 1;
  const shown = lookUp.where.map((condition) => countriesShown(page, condition));
  return Math.max(0, ...shown.flat().map((country) => shareOf(shown, (countries) => countries.includes(country))));
}

/** Whether the opened pages show that the report is a correct answer to the task as worded. */
function isShown(lookUp: LookUp, answer: string | null, pages: readonly Page[]): boolean {
  if (answer === null) return false;
  if (lookUp.ask !== "country") return pages.some((page) => same(factShown(page, lookUp), answer));
  return lookUp.where.every((condition) =>
    pages.some((page) => countriesShown(page, condition).includes(normalized(answer))),
  );
}

/** The fact, if the page states it: the country's own page, or its capital's if the task asks for the capital. */
function factShown({ title, fields }: Page, { ask, of }: Exclude<LookUp, { ask: "country" }>): string | undefined {
  if (same(title, of)) return fields.get(ask);
  return ask === "capital" && same(fields.get("capital of"), of) ? title : undefined;
}

/** The countries, normalized, for which a page shows a condition: its own country, the country that its city is the capital of, or neighbors. */
function countriesShown(page: Page, { field, value }: Condition): readonly string[] {
  const { title } = page;
  if (listed(page, field === "language" ? "languages" : field).includes(normalized(value))) return [normalized(title)];
  if (!same(title, value)) return [];
  if (field === "capital") return listed(page, "capital of");
  return field === "borders" ? listed(page, "borders") : [];
}

const listed = ({ fields }: Page, name: string): string[] => fields.get(name)?.split(", ").map(normalized) ?? [];

export function same(a: string | null | undefined, b: string): boolean {
  return a !== null && a !== undefined && normalized(a) === normalized(b);
}

/** Ignores case, the encoding of accents, and surrounding or repeated space. */
const normalized = (text: string): string => text.normalize("NFC").toLowerCase().replace(/\s+/g, " ").trim();
