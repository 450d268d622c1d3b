/** @file A scripted adversary: 10,000 attacks on the bounds that recipes/gazetteer/rewards.ts states. */
import { expect, test } from "vitest";
import type { Random } from "../../../core/random.ts";
import type { Condition, LookUp } from "../../../recipes/atlas/questions/look-up.ts";
import {
  CONDITIONS,
  COUNTRY,
  DESCRIBED,
  described,
  FACTS,
  factQuestion,
  ofBothSides,
  questionFor,
  taskFor,
} from "../../../recipes/gazetteer/questions/phrasings.ts";
import { rewards } from "../../../recipes/gazetteer/rewards.ts";
import { pageText } from "../../../recipes/gazetteer/tools.ts";
import { ATTACKS, type Attack, changedByOrder, overRewarded, PAGE, SEARCH } from "../attacks.ts";
import { drawCase, honest, oneOf, rewardOf, rightQuery, type Target } from "../cases.ts";
import { composition } from "../compositions.ts";
import { phrasingPattern } from "./phrasings.ts";

/** The look-up in English: as a question of either side, or as a task of the demonstrations. */
function worded(lookUp: LookUp, where: readonly Condition[] | undefined, random: Random): string {
  const side = random.uniform() < 0.5 ? "training" : "held-out";
  const asQuestion = random.uniform() < 0.7;
  if (lookUp.ask === "country") return asQuestion ? questionFor(lookUp, side, random) : taskFor(lookUp, random);
  const of = where ? described(where, side, random) : lookUp.of;
  return asQuestion ? factQuestion(lookUp.ask, of, side, random) : taskFor({ ask: lookUp.ask, of }, random);
}

const wordsIn = (text: string): number => text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;

/** Spellings with spaces, in capitals, with a period, with an article, and of areas with their unit. */
function spellings(report: string): string[] {
  const ended = `${report.replace(/\.$/, "")}.`;
  const measured = /^(\d+|under 1)$/.test(report)
    ? ["thousand km2", "thousand km2.", "thousand square kilometers"]
    : [];
  return [
    report,
    ` ${report} `,
    report.toUpperCase(),
    ended,
    `the ${ended}`,
    ...measured.map((one) => `${report} ${one}`),
  ];
}

const gazetteer: Target = {
  name: "gazetteer",
  rewards,
  pageText,
  taskFor: worded,
  describes: true,
  queryWorth: ({ task }, terms) => wordsIn(task) / wordsIn(terms.join(" ")),
  spellings,
  nonsense: [
    "What is the capital of no such page?",
    "Which country borders nowhere?",
    "Tell me about Jordan.",
    "Jordan",
  ],
};

/** Reports the country when a fact about a described country is asked for. */
const countryInsteadOfFact: Attack = (given) => {
  const { lookUp, where } = given;
  if (lookUp.ask === "country" || !where) return undefined;
  const visits = [lookUp.of, ...where.map(({ value }) => value)];
  return { behavior: { searches: [rightQuery(given)], visits, report: lookUp.of }, maximum: SEARCH + PAGE };
};

/** Opens the pages that show which country is described, and reports its fact from memory. */
const oneHopShort: Attack = (given) => {
  const { lookUp, where, correct } = given;
  if (lookUp.ask === "country" || !where) return undefined;
  const visits = where.map(({ value }) => value);
  const maximum = SEARCH + PAGE / where.length;
  return { behavior: { searches: [rightQuery(given)], visits, report: correct[0] ?? "" }, maximum };
};

/** An area with a wrong unit or a wrong number of digits, or a name with a unit. */
const wrongUnit: Attack = (given) => {
  const { lookUp, random } = given;
  const { report: right, ...behavior } = honest(given);
  const units =
    lookUp.ask === "area" ? [" km2", "000", " million km2", " thousand", " thousand miles"] : [" thousand km2"];
  return { behavior: { ...behavior, report: `${right}${oneOf(units, random)}` }, maximum: SEARCH + PAGE };
};

test("10,000 attacks: none earns more than its search and its page are worth", () => {
  expect(overRewarded(gazetteer, { ...ATTACKS, countryInsteadOfFact, oneHopShort, wrongUnit }, 10_000)).toEqual({});
});

test("2,000 random compositions of behaviors: none earns more than its right parts are worth", () => {
  expect(overRewarded(gazetteer, { composition }, 2000)).toEqual({});
});

test("correct work earns the full reward, in every phrasing of both sides and every spelling of the report", () => {
  const phrasings = [COUNTRY, DESCRIBED, ...Object.values(CONDITIONS), ...Object.values(FACTS)];
  const unused = new Set(phrasings.flatMap(ofBothSides));
  for (let i = 0; i < 3000; i++) {
    const given = drawCase(gazetteer, i);
    const { task } = given;
    const behavior = honest(given);
    for (const phrasing of unused) if (phrasingPattern(phrasing).test(task)) unused.delete(phrasing);
    for (const searches of [behavior.searches ?? [], [task]]) {
      for (const report of spellings(behavior.report)) {
        expect(rewardOf(given, { ...behavior, searches, report }), `${task} ${report}`).toBe(1);
      }
    }
  }
  expect([...unused]).toEqual([]);
});

test("reordering the conditions of a task does not change the score of an attack", () => {
  expect(changedByOrder(gazetteer, 500)).toEqual([]);
});
