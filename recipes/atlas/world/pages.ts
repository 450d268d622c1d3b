/**
 * @file The pages of a world: one per country and one per capital, as short encyclopedia entries. `[Brackets]` are links:
 * titles of other pages.
 */
import type { Country } from "./countries.ts";
import type { World } from "./world.ts";

/** Title -> text. */
export function pagesOf(world: World): Map<string, string> {
  const pages = new Map<string, string>();
  for (const country of world.countries.values()) {
    pages.set(country.name, countryPage(country));
    pages.set(country.capital, capitalPage(country));
  }
  return pages;
}

function countryPage(country: Country): string {
  return [
    country.name,
    `Capital: [${country.capital}]`,
    `Region: ${country.region}`,
    `Currency: ${country.currency}`,
    `Languages: ${country.languages.join(", ")}`,
    `Area: ${country.area === 0 ? "under 1" : country.area} thousand km2`,
    `Borders: ${country.borders.length === 0 ? "none" : links(country.borders)}`,
  ].join("\n");
}

function capitalPage(country: Country): string {
  return [country.capital, `Capital of: [${country.name}]`, `Region: ${country.region}`].join("\n");
}

const links = (titles: readonly string[]) => titles.map((title) => `[${title}]`).join(", ");
