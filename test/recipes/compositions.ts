/**
 * @file Random compositions of what a searcher may do, right and wrong: it looks nothing up, searches for something else, opens wrong pages,
 * repeats calls, reports a field of another country, or the right answer without having looked. What each may earn follows from the world
 * itself, not from the pages that the judge reads.
 */
import { ASKED, type Condition, factOf } from "../../recipes/atlas/questions/look-up.ts";
import type { Country } from "../../recipes/atlas/world/countries.ts";
import { askedOf, holds, PAGE, REPORT, SEARCH } from "./attacks.ts";
import { type Behavior, type Case, honest, oneOf, rightQuery, termsIn } from "./cases.ts";

const MAX_CALLS = 8;

export interface Composition {
  readonly behavior: Required<Behavior>;
  /** Maximum reward that it may earn. */
  readonly maximum: number;
}

/** A composition of up to `MAX_CALLS` calls and a report. */
export function composition(given: Case): Composition {
  const { random, task } = given;
  const searches: string[] = [];
  const visits: string[] = [];
  for (let left = random.integer(MAX_CALLS + 1); left > 0; left--) {
    const calls = random.uniform() < 0.5 ? searches : visits;
    const repeated = random.uniform() < 0.2 ? oneOf(calls, random) : undefined;
    calls.push(repeated ?? (calls === searches ? anyQuery(given) : anyTitle(given)));
  }
  const behavior = { task, searches, visits, report: anyReport(given, visits) };
  return { behavior, maximum: mayEarn(given, behavior) };
}

function anyQuery(given: Case): string {
  const { random } = given;
  const terms = termsIn(given);
  const { name, capital, currency } = anyCountry(given);
  const some = oneOf(terms, random) ?? "";
  return pick(given, [
    rightQuery(given),
    some,
    `${rightQuery(given)}, ${name}`,
    name,
    capital,
    currency,
    given.task,
    "",
  ]);
}

function anyTitle(given: Case): string {
  const { name, capital } = anyCountry(given);
  const [right = ""] = honest(given).visits ?? [];
  return pick(given, [right, ` ${right} `, oneOf(termsIn(given), given.random) ?? "", name, capital, "no such page"]);
}

function anyReport(given: Case, visits: readonly string[]): string | null {
  const { lookUp, world, random } = given;
  const right = honest(given).report;
  const other = anyCountry(given);
  const own = lookUp.ask === "country" ? undefined : world.countries.get(lookUp.of);
  const ownFields = own ? ASKED.map((asked) => factOf(own, asked)) : [];
  const wrong = [
    askedOf(lookUp, other),
    other.name,
    other.region,
    oneOf(ownFields, random) ?? "",
    `${right}, ${other.name}`,
  ];
  const seen = oneOf(visits, random) ?? "";
  return random.uniform() < 0.4 ? right : pick(given, [...wrong, seen, "", null]);
}

/** The sum of what the behavior's parts are worth. A search may earn its whole share once it contains one of the task's names. */
function mayEarn(given: Case, { searches, visits, report }: Required<Behavior>): number {
  const titles = [...new Set(visits.map((title) => title.trim()))];
  const isSearched = searches.some((query) => termsIn(given).some((term) => plain(query).includes(plain(term))));
  const opened = Math.max(0, ...titles.map((title) => pageWorth(given, title)));
  return (isSearched ? SEARCH : 0) + PAGE * opened + (isShown(given, report, titles) ? REPORT : 0);
}

/** Whether the page states the asked fact of the country. */
function statesFact({ lookUp: { ask } }: Case, country: Country | undefined, title: string): boolean {
  return country !== undefined && (title === country.name || (ask === "capital" && title === country.capital));
}

/** Whether the page states that the condition holds for the country: its own page, or that of the neighbor or capital that is named. */
function statesCondition(country: Country, condition: Condition, title: string): boolean {
  const named = condition.field === "borders" || condition.field === "capital" ? condition.value : country.name;
  return holds(country, condition) && (title === country.name || title === named);
}

function pageWorth(given: Case, title: string): number {
  const { lookUp, where, world, countries } = given;
  if (!where) return lookUp.ask !== "country" && statesFact(given, world.countries.get(lookUp.of), title) ? 1 : 0;
  const shares = countries.map((one) => where.filter((condition) => statesCondition(one, condition, title)).length);
  return Math.max(...shares) / where.length;
}

/** Whether the pages state that the report is an answer to the task: for one country, every condition and what is asked. */
function isShown(given: Case, report: string | null, titles: readonly string[]): boolean {
  const { lookUp, where, world, countries } = given;
  if (report === null) return false;
  const named = !where && lookUp.ask !== "country" ? world.countries.get(lookUp.of) : undefined;
  return (where ? countries : named ? [named] : []).some((country) => {
    const { ask } = lookUp;
    const value = ask === "country" ? country.name : factOf(country, ask);
    const isStated = ask === "country" || titles.some((title) => statesFact(given, country, title));
    return (
      plain(value) === plain(report) &&
      isStated &&
      (where ?? []).every((condition) => titles.some((title) => statesCondition(country, condition, title)))
    );
  });
}

const plain = (text: string): string => {
  const bare = text.toLowerCase().trim().replace(/^the /, "");
  return bare === "under 1" ? "0" : bare;
};
const anyCountry = ({ countries, random }: Case): Country => oneOf(countries, random) as Country;
const pick = <T>({ random }: Case, options: readonly T[]): T => oneOf(options, random) as T;
