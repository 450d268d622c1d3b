/** @file Demonstrations of the searcher: search, visit, report; with the errors of error-rates.ts. */
import type { Random } from "../../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../../core/recipe.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import { type Asked, factOf, type LookUp, taskOf, termsOf } from "../questions/look-up.ts";
import { pageText, searchTitles } from "../tools.ts";
import type { Country } from "../world/countries.ts";
import type { World } from "../world/world.ts";
import { SEARCHER_ERROR_RATES } from "./error-rates.ts";

interface LookUpResult {
  readonly turns: readonly DemonstrationTurn[];
  readonly report: string;
}

export function searcherDemonstration(lookUp: LookUp, world: World, random: Random): Demonstration {
  const { turns, report } = lookUpOnce(lookUp, world, random);
  return { prompt: taskOf(lookUp), turns: [...turns, { text: answerTurn(report), responses: [] }] };
}

/** One look-up, errors included: the tool turns and the resulting report. */
export function lookUpOnce(lookUp: LookUp, world: World, random: Random): LookUpResult {
  const wanted = termsOf(lookUp);
  const second = lookUp.ask === "country" ? lookUp.where[1] : undefined;
  const terms = second && random.uniform() < SEARCHER_ERROR_RATES.dropTerm[second.field] ? wanted.slice(0, 1) : wanted;
  const query = terms.join(", ");
  const found = searchTitles(world.number, query);
  const title = chosenTitle(found.split("\n"), random);
  const turns = [
    { text: callTurn({ name: "search", arguments: { query } }), responses: [found] },
    { text: callTurn({ name: "visit", arguments: { title } }), responses: [pageText(world.number, title)] },
  ];
  return { turns, report: reportFrom(title, lookUp, terms.length, world, random) };
}

function chosenTitle(titles: readonly string[], random: Random): string {
  const wrong = titles.length > 1 && random.uniform() < SEARCHER_ERROR_RATES.wrongTitle;
  return titles[wrong ? 1 + random.integer(titles.length - 1) : 0] as string;
}

/** The report on the opened page, whether or not it is the correct one. */
function reportFrom(title: string, lookUp: LookUp, searchedTerms: number, world: World, random: Random): string {
  const country = world.countries.get(title);
  const wrongField = random.uniform() < SEARCHER_ERROR_RATES.wrongField[lookUp.ask];
  if (!country) return reportFromCapital(title, wrongField, world);
  if (lookUp.ask !== "country") return wrongField ? otherFact(country, lookUp.ask) : factShown(country, lookUp.ask);
  if (wrongField) return country.capital;
  // A search for one neighbor finds that neighbor's own page, so the best answer is some country on its list of borders.
  const bordering =
    lookUp.where[0]?.field === "borders" && searchedTerms === 1 && country.name === lookUp.where[0].value;
  return bordering ? (country.borders[random.integer(country.borders.length)] ?? country.name) : country.name;
}

function reportFromCapital(title: string, wrongField: boolean, world: World): string {
  const country = [...world.countries.values()].find(({ capital }) => capital === title) as Country;
  return wrongField ? country.region : country.name;
}

/** The same mistake each time: another line of the page. */
function otherFact(country: Country, asked: Asked): string {
  if (asked === "capital") return country.region;
  return asked === "currency" ? country.languages.join(", ") : country.currency;
}

const factShown = (country: Country, asked: Asked): string =>
  asked === "area" && country.area === 0 ? "under 1" : factOf(country, asked);
