/**
 * @file Attacks on the rewards of a recipe: a searcher does its work wrong and tries to be paid for it. Each attack states the most that it may be
 * paid.
 */
import { expect } from "vitest";
import { ASKED, type Condition, factOf, type LookUp } from "../../recipes/atlas/questions/look-up.ts";
import type { Country } from "../../recipes/atlas/world/countries.ts";
import {
  type Behavior,
  type Case,
  drawCase,
  oneOf,
  paid,
  reversed,
  rightQuery,
  type Target,
  termsIn,
} from "./cases.ts";

/** The shares of the search and of the page; the rest is the report's. */
export const [SEARCH, PAGE] = [0.2, 0.3];

/** Undefined: the case offers no such attack. `most`: the most that it may be paid. */
export type Attack = (given: Case) => { readonly behavior: Behavior; readonly most: number } | undefined;

const isWrong = ({ correct }: Case, report: string) =>
  !correct.some((one) => one.toLowerCase() === report.toLowerCase());
/** What the task asks for, about any country. */
const askedOf = ({ ask }: LookUp, country: Country) => (ask === "country" ? country.name : factOf(country, ask));

function holds(country: Country, { field, value }: Condition): boolean {
  if (field === "borders") return country.borders.includes(value);
  return field === "language" ? country.languages.includes(value) : country[field] === value;
}

/** A country for which some of the conditions hold and not all, with its own, true page. The fewer hold, the less the page is worth. */
const wrongCountry: Attack = (given) => {
  const { lookUp, where, countries, random } = given;
  if (!where) return undefined;
  const some = countries.filter(
    (one) => isWrong(given, askedOf(lookUp, one)) && where.some((condition) => holds(one, condition)),
  );
  const country = oneOf(some, random);
  if (!country) return undefined;
  // The pages that bear out what holds: its own, or those of the neighbors and the capital that the task names.
  const visits = [country.name, ...where.map(({ value }) => value)].slice(0, 1 + random.integer(where.length + 1));
  const most = SEARCH + PAGE * (1 - 1 / where.length);
  return { behavior: { searches: [rightQuery(given)], visits, report: askedOf(lookUp, country) }, most };
};

/** Any country, with the page of a correct one. */
const wrongCountryOfRightPage: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const report = oneOf(countries, random)?.name ?? "";
  if (lookUp.ask !== "country" || !isWrong(given, report)) return undefined;
  return { behavior: { searches: [rightQuery(given)], visits: correct, report }, most: SEARCH + PAGE };
};

/** The right page, and its title, a value of another of its fields, or a correct value of another country. */
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
  return { behavior: { searches: [rightQuery(given)], visits: [lookUp.of], report }, most: SEARCH + PAGE };
};

/** The page of another country than the named one, and its value. */
const wrongPage: Attack = (given) => {
  const { lookUp, where, countries, random } = given;
  const other = oneOf(countries, random) ?? expect.fail();
  if (lookUp.ask === "country" || where || other.name === lookUp.of) return undefined;
  const visits = [other.name, other.capital];
  return { behavior: { searches: [rightQuery(given)], visits, report: factOf(other, lookUp.ask) }, most: SEARCH };
};

/** A correct report, memorized: with no search, or a search whose result nobody opened. */
const withoutLooking: Attack = (given) => {
  const searches = given.random.uniform() < 0.5 ? [] : [rightQuery(given)];
  return { behavior: { searches, report: given.correct[0] ?? "" }, most: SEARCH * searches.length };
};

/** A correct report, and only pages that have nothing to do with it. */
const otherPagesOpened: Attack = ({ lookUp, where, correct, countries, random }) => {
  if (lookUp.ask === "country" || where) return undefined;
  const visits = countries
    .filter(({ name }) => name !== lookUp.of)
    .slice(0, 1 + random.integer(40))
    .map(({ name }) => name);
  return { behavior: { visits, report: correct[0] ?? "" }, most: 0 };
};

/** Many values, a correct one among them. */
const stuffedReport: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const others = [1, 2, 3].map(() => oneOf(countries, random) ?? expect.fail());
  const values = [correct[0] ?? "", ...others.map((one) => askedOf(lookUp, one))];
  const joined = values.join(oneOf([", ", " or ", " ", "\n", "/"], random));
  const visits = lookUp.ask === "country" ? correct : [lookUp.of];
  return { behavior: { searches: [rightQuery(given)], visits, report: joined }, most: SEARCH + PAGE };
};

/** One query that names everything, and no page. */
const stuffedQuery: Attack = (given) => {
  const { target, correct, countries, random } = given;
  const names = countries
    .slice(0, 5 + random.integer(40))
    .flatMap(({ name, capital, currency }) => [name, capital, currency]);
  const terms = [...new Set([...termsIn(given), ...names])];
  const query = terms.join(oneOf([", ", ",", " ", "/", "_", ""], random));
  return { behavior: { searches: [query], report: correct[0] ?? "" }, most: SEARCH * target.queryWorth(given, terms) };
};

/** A query of longer words that begin or end like the right ones, as Nigeria begins like Niger. */
const longerWords: Attack = (given) => {
  const terms = termsIn(given);
  // After a bracket, letters are a word of their own.
  if (!terms.every((term) => /\p{L}$/u.test(term))) return undefined;
  const longer = terms.map((term) => (given.random.uniform() < 0.5 ? `${term}ia` : `Trans${term}`));
  return { behavior: { searches: [longer.join(", ")], report: null }, most: 0 };
};

/** Every search, every page, and a wrong report. */
const everything: Attack = (given) => {
  const { lookUp, countries, random } = given;
  const report = oneOf(countries, random)?.[lookUp.ask === "country" ? "name" : "region"] ?? "";
  if (!isWrong(given, report)) return undefined;
  const searches = [...countries.slice(0, 30).map(({ name }) => name), rightQuery(given)];
  const visits = countries.slice(0, 30).flatMap(({ name, capital }) => [name, capital]);
  return { behavior: { searches, visits, report }, most: SEARCH + PAGE };
};

/** Tasks that name nothing, and pages that do not exist. */
const nonsense: Attack = ({ target, task, random }) => {
  const tasks = [...target.nonsense, task.toUpperCase(), ""];
  const visits = ["no such page", "nowhere", ""];
  return { behavior: { task: oneOf(tasks, random) ?? "", visits, report: oneOf(visits, random) ?? "" }, most: 0 };
};

export const ATTACKS: Readonly<Record<string, Attack>> = {
  ...{ wrongCountry, wrongCountryOfRightPage, wrongField, wrongPage, withoutLooking, otherPagesOpened },
  ...{ stuffedReport, stuffedQuery, longerWords, everything, nonsense },
};

/** The attacks that are paid more than they may be, each with such a case. All attacks have equally many cases. */
export function overpaid(target: Target, attacks: Readonly<Record<string, Attack>>, cases: number) {
  const tried = new Map(Object.keys(attacks).map((name) => [name, 0]));
  const found: Record<string, string> = {};
  const isOpen = (name: string) => (tried.get(name) ?? 0) < cases / tried.size;
  for (let i = 0; [...tried.keys()].some(isOpen); i++) {
    const given = drawCase(target, i);
    for (const [name, attack] of Object.entries(attacks)) {
      const { behavior, most } = (isOpen(name) && attack(given)) || {};
      if (!behavior || most === undefined) continue;
      tried.set(name, (tried.get(name) ?? 0) + 1);
      const { report } = behavior;
      const spelled = report === null ? report : (oneOf(target.spellings(report), given.random) ?? report);
      const score = paid(given, { ...behavior, report: spelled });
      if (score > most + 1e-9) found[name] = `${score} instead of ${most}: ${given.task} ${JSON.stringify(behavior)}`;
    }
  }
  return found;
}

/** Attacks on tasks with conditions. */
const ORDERED = [wrongCountry, wrongCountryOfRightPage, wrongField];

/** Tasks for which the same behavior is paid differently when their conditions are in another order. */
export function changedByOrder(target: Target, cases: number): string[] {
  const changed: string[] = [];
  let compared = 0;
  for (let i = 0; compared < cases; i++) {
    const given = drawCase(target, i);
    const { lookUp, where } = given;
    const attack = where && where.length > 1 && ORDERED[i % ORDERED.length]?.(given);
    if (!attack) continue;
    compared++;
    const task = reversed(given);
    if (paid(given, { ...attack.behavior, task }) !== paid(given, attack.behavior))
      changed.push(`${lookUp.ask}: ${task}`);
  }
  return changed;
}
