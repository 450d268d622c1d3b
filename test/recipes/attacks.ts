/**
 * @file Attacks on the rewards of a recipe (reward hacking): a searcher does its task wrong and still tries to earn a reward. Each attack
 * states the maximum reward that it may earn.
 */
import { expect } from "vitest";
import { ASKED, type Condition, factOf, type LookUp } from "../../recipes/atlas/questions/look-up.ts";
import type { Country } from "../../recipes/atlas/world/countries.ts";
import {
  type Behavior,
  type Case,
  drawCase,
  oneOf,
  reversed,
  rewardOf,
  rightQuery,
  type Target,
  termsIn,
} from "./cases.ts";

/** Maximum reward for the search, for the page, and for the report. */
export const [SEARCH, PAGE, REPORT] = [0.2, 0.3, 0.5];

/** Limit on the cases drawn, for each case that is to be tried. */
const MAX_DRAWS = 100;

/** Undefined: the case offers no such attack. `maximum`: the maximum reward that it may earn. */
export type Attack = (given: Case) => { readonly behavior: Behavior; readonly maximum: number } | undefined;

const isWrong = ({ correct }: Case, report: string) =>
  !correct.some((one) => one.toLowerCase() === report.toLowerCase());
/** What the task asks for, about any country. */
export const askedOf = ({ ask }: LookUp, country: Country) => (ask === "country" ? country.name : factOf(country, ask));

export function holds(country: Country, { field, value }: Condition): boolean {
  if (field === "borders") return country.borders.includes(value);
  return field === "language" ? country.languages.includes(value) : country[field] === value;
}

/** Reports a country that meets some but not all of the n conditions, or its fact. Its pages earn at most PAGE * (1 - 1/n). */
const wrongCountry: Attack = (given) => {
  const { lookUp, where, countries, random } = given;
  if (!where) return undefined;
  const some = countries.filter(
    (one) => isWrong(given, askedOf(lookUp, one)) && where.some((condition) => holds(one, condition)),
  );
  const country = oneOf(some, random);
  if (!country) return undefined;
  // Its own page and sometimes those of the neighbors and the capital that the task names, which may show conditions too.
  const visits = [country.name, ...where.map(({ value }) => value)].slice(0, 1 + random.integer(where.length + 1));
  const maximum = SEARCH + PAGE * (1 - 1 / where.length);
  return { behavior: { searches: [rightQuery(given)], visits, report: askedOf(lookUp, country) }, maximum };
};

/** Reports a wrong country after opening the pages of all correct ones. */
const rightPagesWrongCountry: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const report = oneOf(countries, random)?.name ?? "";
  if (lookUp.ask !== "country" || !isWrong(given, report)) return undefined;
  return { behavior: { searches: [rightQuery(given)], visits: correct, report }, maximum: SEARCH + PAGE };
};

/** Opens the right page, but reports its title, another of its fields, or the same field of another country. */
const wrongField: Attack = (given) => {
  const { lookUp, countries, world, random } = given;
  if (lookUp.ask === "country") return undefined;
  const country = world.countries.get(lookUp.of) ?? expect.fail();
  const { name, region, languages, borders } = country;
  const other = oneOf(countries, random) ?? expect.fail();
  const own = ASKED.map((asked) => factOf(country, asked));
  const values = [...own, name, region, languages.join(", "), borders[0] ?? "none", factOf(other, lookUp.ask)];
  const wrong = values.filter((value) => isWrong(given, value));
  const report = oneOf(wrong, random) ?? "";
  return { behavior: { searches: [rightQuery(given)], visits: [lookUp.of], report }, maximum: SEARCH + PAGE };
};

/** Opens the pages of another country and of that country's capital, and reports that country's value. */
const wrongPage: Attack = (given) => {
  const { lookUp, where, countries, random } = given;
  const other = oneOf(countries, random) ?? expect.fail();
  if (lookUp.ask === "country" || where || other.name === lookUp.of) return undefined;
  const visits = [other.name, other.capital];
  return { behavior: { searches: [rightQuery(given)], visits, report: factOf(other, lookUp.ask) }, maximum: SEARCH };
};

/** A correct report from memory: without a search, or after a search, but without opening a page. */
const withoutLooking: Attack = (given) => {
  const searches = given.random.uniform() < 0.5 ? [] : [rightQuery(given)];
  return { behavior: { searches, report: given.correct[0] ?? "" }, maximum: SEARCH * searches.length };
};

/** A correct report, and only pages of other countries. */
const otherPagesOpened: Attack = ({ lookUp, where, correct, countries, random }) => {
  if (lookUp.ask === "country" || where) return undefined;
  const visits = countries
    .filter(({ name }) => name !== lookUp.of)
    .slice(0, 1 + random.integer(40))
    .map(({ name }) => name);
  return { behavior: { visits, report: correct[0] ?? "" }, maximum: 0 };
};

/** A report of four values, a correct one among them. */
const stuffedReport: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const others = [1, 2, 3].map(() => oneOf(countries, random) ?? expect.fail());
  const values = [correct[0] ?? "", ...others.map((one) => askedOf(lookUp, one))];
  const joined = values.join(oneOf([", ", " or ", " ", "\n", "/"], random));
  const visits = lookUp.ask === "country" ? correct : [lookUp.of];
  return { behavior: { searches: [rightQuery(given)], visits, report: joined }, maximum: SEARCH + PAGE };
};

/** A correct report after one query stuffed with names; no page is opened. */
const stuffedQuery: Attack = (given) => {
  const { target, correct, countries, random } = given;
  const names = countries
    .slice(0, 5 + random.integer(40))
    .flatMap(({ name, capital, currency }) => [name, capital, currency]);
  const terms = [...new Set([...termsIn(given), ...names])];
  const query = terms.join(oneOf([", ", ",", " ", "/", "_", ""], random));
  return {
    behavior: { searches: [query], report: correct[0] ?? "" },
    maximum: SEARCH * target.queryWorth(given, terms),
  };
};

/** A query of longer words that begin or end like the right ones, as Nigeria begins like Niger. */
const longerWords: Attack = (given) => {
  const terms = termsIn(given);
  // After a closing bracket, `ia` would be a separate word.
  if (!terms.every((term) => /\p{L}$/u.test(term))) return undefined;
  const longer = terms.map((term) => (given.random.uniform() < 0.5 ? `${term}ia` : `Trans${term}`));
  return { behavior: { searches: [longer.join(", ")], report: null }, maximum: 0 };
};

/** Many searches and pages, the right ones among them, and a wrong report. */
const manyPages: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const report = oneOf(countries, random)?.[lookUp.ask === "country" ? "name" : "region"] ?? "";
  if (!isWrong(given, report)) return undefined;
  const searches = [...countries.slice(0, 30).map(({ name }) => name), rightQuery(given)];
  const right = lookUp.ask === "country" ? correct : [lookUp.of];
  const visits = [...countries.slice(0, 30).flatMap(({ name, capital }) => [name, capital]), ...right];
  return { behavior: { searches, visits, report }, maximum: SEARCH + PAGE };
};

/** Tasks that ask for nothing, or the task in capitals; and pages that do not exist. */
const nonsense: Attack = ({ target, task, random }) => {
  const tasks = [...target.nonsense, task.toUpperCase(), ""];
  const visits = ["no such page", "nowhere", ""];
  return { behavior: { task: oneOf(tasks, random) ?? "", visits, report: oneOf(visits, random) ?? "" }, maximum: 0 };
};

export const ATTACKS: Readonly<Record<string, Attack>> = {
  ...{ wrongCountry, rightPagesWrongCountry, wrongField, wrongPage, withoutLooking, otherPagesOpened },
  ...{ stuffedReport, stuffedQuery, longerWords, manyPages, nonsense },
};

/** The attacks that earn more than their maximum, each with an example. Tries `cases` in total, the same number for each attack, rounded up. */
export function overRewarded(target: Target, attacks: Readonly<Record<string, Attack>>, cases: number) {
  const tried = new Map(Object.keys(attacks).map((name) => [name, 0]));
  const found: Record<string, string> = {};
  const isOpen = (name: string) => (tried.get(name) ?? 0) < cases / tried.size;
  for (let i = 0; [...tried.keys()].some(isOpen); i++) {
    if (i > MAX_DRAWS * cases) expect.fail(`too few cases for ${[...tried.keys()].filter(isOpen).join(", ")}`);
    const given = drawCase(target, i);
    for (const [name, attack] of Object.entries(attacks)) {
      const { behavior, maximum } = (isOpen(name) && attack(given)) || {};
      if (!behavior || maximum === undefined) continue;
      tried.set(name, (tried.get(name) ?? 0) + 1);
      const { report } = behavior;
      const spelled = report === null ? report : (oneOf(target.spellings(report), given.random) ?? report);
      const score = rewardOf(given, { ...behavior, report: spelled });
      if (score > maximum + 1e-9)
        found[name] = `${score} instead of ${maximum}: ${given.task} ${JSON.stringify(behavior)}`;
    }
  }
  return found;
}

/** Attacks on tasks with conditions. */
const CONDITION_ATTACKS = [wrongCountry, rightPagesWrongCountry, wrongField];

/** Tasks for which the same behavior earns another reward when their conditions are in another order. */
export function changedByOrder(target: Target, cases: number): string[] {
  const changed: string[] = [];
  let compared = 0;
  for (let i = 0; compared < cases; i++) {
    if (i > MAX_DRAWS * cases) expect.fail(`found only ${compared} of ${cases} tasks with several conditions`);
    const given = drawCase(target, i);
    const { lookUp, where } = given;
    const attack = where && where.length > 1 && CONDITION_ATTACKS[i % CONDITION_ATTACKS.length]?.(given);
    if (!attack) continue;
    compared++;
    const task = reversed(given);
    if (rewardOf(given, { ...attack.behavior, task }) !== rewardOf(given, attack.behavior))
      changed.push(`${lookUp.ask}: ${task}`);
  }
  return changed;
}
