/**
 * @file The pages of a world in prose: one per country and one per capital. A page's wording is a function of its world and title.
 */
import { stream } from "../../../core/random.ts";
import type { Country } from "../../atlas/world/countries.ts";
import type { World } from "../../atlas/world/world.ts";
import { CAPITAL_PAGES, COUNTRY_PAGES, fillIn, NO_NEIGHBOR, SMALL_AREA } from "./prose.ts";

/** Title -> text. */
export function pagesOf({ number, countries }: World): Map<string, string> {
  const pages = new Map<string, string>();
  for (const country of countries.values()) {
    const { name, capital, region } = country;
    pages.set(name, fillIn(wordingOf(COUNTRY_PAGES, number, name), slotsOf(country)));
    pages.set(
      capital,
      fillIn(wordingOf(CAPITAL_PAGES, number, capital), {
        name: capital,
        region: withArticle(region),
        country: link(name),
      }),
    );
  }
  return pages;
}

/** As in "a country in the Caribbean". */
const withArticle = (region: string): string => (region === "Caribbean" ? `the ${region}` : region);

function slotsOf({ name, region, capital, currency, languages, area, borders }: Country): Record<string, string> {
  return {
    name,
    region: withArticle(region),
    currency,
    capital: link(capital),
    languages: listed(languages),
    area: area === 0 ? SMALL_AREA : String(area),
    borders: borders.length === 0 ? NO_NEIGHBOR : listed(borders.map(link)),
  };
}

function wordingOf(wordings: readonly string[], world: number, title: string): string {
  return wordings[stream("gazetteer-page", world, title).integer(wordings.length)] as string;
}

const link = (title: string): string => `[${title}]`;

/** `a`, `a and b`, `a, b and c`. */
const listed = (items: readonly string[]): string =>
  items.length < 2 ? (items[0] ?? "") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
