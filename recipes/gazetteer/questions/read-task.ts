/**
 * @file Reads a task in English, so that a program can judge it: every phrasing of phrasings.ts but comparisons, and what models write
 * instead ("the area of Chad", "country bordering Iraq, whose currency is the lira"). `readTask` returns
 * undefined if it recognizes nothing. Text before a condition is ignored; text after one is read as part of its value.
 */
import type { Asked, Condition } from "../../atlas/questions/look-up.ts";
import { escapeRegExp } from "../world/prose.ts";
import { CONDITIONS, FACTS, ofBothSides } from "./phrasings.ts";

/** What a task asks for: a country, a fact about a named country, or a fact about a described country. */
export interface Task {
  readonly ask: "country" | Asked;
  /** The country's name, if it is named. */
  readonly of?: string;
  /** The conditions on the country; empty if it is named. */
  readonly where: readonly Condition[];
}

/** Wordings of conditions that models use and no phrasing has. */
const EXTRA_WORDINGS: Readonly<Record<Condition["field"], readonly string[]>> = {
  capital: ["has the capital of {value}", "capital is {value}", "with the capital {value}", "with capital {value}"],
  borders: [
    "bordering {value}",
    "next to {value}",
    "has a border with {value}",
    "border with {value}",
    "neighbor of {value}",
  ],
  currency: [
    "using the {value}",
    "use the {value}",
    "currency is the {value}",
    "with the currency {value}",
    "has the currency {value}",
    "uses {value}",
    "pays with {value}",
  ],
  language: [
    "speaking {value}",
    "speak {value}",
    "language is {value}",
    "with the language {value}",
    "has the language {value}",
  ],
};

const FIELDS = Object.keys(CONDITIONS) as Condition["field"][];
const AREA_UNIT = String.raw`(?:,? (?:measured )?in thousand (?:km2|square kilomet\w+))?`;
/** The fact's country is described, not named. */
const UNNAMED = /\b(?:country|state|nation|land)\b/i;
/** The task asks for a country: the noun comes within its first five words, before any fact. */
const FOR_COUNTRY = /^(?:(?!capital|currency|money|area|size|large|big)\w+ ){0,4}(?:country|state|nation|land)\b/i;
const FACT = new RegExp(
  String.raw`\b(capital|currency|money|area|size|large|big)\b.*? (?:of|in|for|is(?! (?:used|spent|paid)\b)) (.+?)${AREA_UNIT}$`,
  "i",
);
const SYNONYMS: Readonly<Record<string, Asked>> = { money: "currency", size: "area", large: "area", big: "area" };

export function readTask(text: string): Task | undefined {
  const task = text
    .replace(/\s+/g, " ")
    .trim()
    .replace(/[.?!]$/, "");
  if (!FOR_COUNTRY.test(task)) {
    const fact = readFact(task);
    if (fact && !UNNAMED.test(fact.of)) return { ...fact, where: [] };
    const where = fact ? conditionsIn(fact.of) : [];
    if (fact && where.length > 0) return { ask: fact.ask, where };
  }
  const where = conditionsIn(task);
  return where.length > 0 ? { ask: "country", where } : undefined;
}

const PHRASED = Object.entries(FACTS).flatMap(([ask, phrasings]) =>
  ofBothSides(phrasings).map((text) => ({ ask: ask as Asked, pattern: factPattern(text) })),
);

function readFact(task: string): { readonly ask: Asked; readonly of: string } | undefined {
  for (const { ask, pattern } of PHRASED) {
    const of = pattern.exec(task)?.[1];
    if (of !== undefined) return { ask, of: bare(of) };
  }
  const [, word = "", of] = FACT.exec(task) ?? [];
  if (of === undefined) return undefined;
  const relation = word.toLowerCase();
  return { ask: SYNONYMS[relation] ?? (relation as Asked), of: bare(of) };
}

function factPattern(phrasing: string): RegExp {
  const [before = "", after = ""] = phrasing.replace(/[.?]$/, "").replace(" in thousand km2", "").split("{of}");
  return new RegExp(`^${escapeRegExp(before)}(.+?)${escapeRegExp(after)}${AREA_UNIT}$`, "i");
}

const WORDINGS = FIELDS.flatMap((field) =>
  [...ofBothSides(CONDITIONS[field]), ...EXTRA_WORDINGS[field]].map((text) => ({ field, text })),
).sort((a, b) => b.text.length - a.text.length);

/** The beginnings of conditions, where a text is split: no name contains one. Splitting at "and" would cut names that contain it. */
const BEGINNINGS = WORDINGS.map(({ text }) =>
  escapeRegExp(text.split("{value}")[0] as string).replace(/ $/, "\\b"),
).join("|");
const SEPARATOR = new RegExp(`,? (?:and )?(?:also )?(?:(?:that|which|whose|it) )?(?=${BEGINNINGS})`, "i");

const PATTERNS = WORDINGS.map(({ field, text }) => {
  const [before = "", after = ""] = text.split("{value}").map(escapeRegExp);
  return { field, pattern: new RegExp(`^${before}(.+)${after}$`, "i") };
});

/** The conditions that a text states, in its order. */
function conditionsIn(text: string): Condition[] {
  return text.split(SEPARATOR).flatMap((claim) => conditionIn(claim) ?? []);
}

/** Longer wordings win over those that they contain. */
function conditionIn(claim: string): Condition | undefined {
  for (const { field, pattern } of PATTERNS) {
    const value = pattern.exec(claim)?.[1];
    if (value !== undefined) return { field, value: bare(value) };
  }
  return undefined;
}

/** A name without a leading "the" and without one trailing `,`, `;` or `:`. */
const bare = (name: string): string =>
  name
    .trim()
    .replace(/^the /i, "")
    .replace(/[,;:]$/, "");
