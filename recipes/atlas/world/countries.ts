/**
 * @file The countries of the real world, from the npm package `world-countries` (mledoze/countries, ODbL 1.0): sovereign
 * states with the facts that atlas asks about. Excludes the five whose capital has the country's name (their pages could not be
 * distinguished), and states with no recorded currency or more than two.
 */
import countriesJson from "world-countries/countries.json" with { type: "json" };
import * as z from "zod";

export interface Country {
  readonly name: string;
  readonly capital: string;
  readonly region: string;
  readonly currency: string;
  /** At most four, in the order of the source. */
  readonly languages: readonly string[];
  /** Thousands of square kilometers, rounded. */
  readonly area: number;
  /** Names of the land neighbors that are in this list. */
  readonly borders: readonly string[];
}

const MAX_LANGUAGES = 4;
const MAX_CURRENCIES = 2;

/** The fields read from the source. Its JSON is imported directly: the package's ES module lacks the import attribute that Node requires. */
const CountryRows = z.array(
  z.object({
    cca3: z.string(),
    name: z.object({ common: z.string() }),
    independent: z.boolean().nullish(),
    unMember: z.boolean(),
    capital: z.array(z.string()),
    subregion: z.string(),
    currencies: z.union([z.record(z.string(), z.object({ name: z.string() })), z.array(z.never()).length(0)]),
    languages: z.record(z.string(), z.string()),
    area: z.number(),
    borders: z.array(z.string()),
  }),
);

const states = CountryRows.parse(countriesJson).filter((state) => {
  const currencies = Object.keys(state.currencies).length;
  const sovereign = state.independent === true || state.unMember;
  return sovereign && currencies > 0 && currencies <= MAX_CURRENCIES && state.capital[0] !== state.name.common;
});
const byCode = new Map(states.map((state) => [state.cca3, state]));

/** Only neighbors that list each other: the source has one border that is listed on one side only. */
const neighborsOf = (state: (typeof states)[number]): string[] =>
  state.borders.flatMap((code) => {
    const other = byCode.get(code);
    return other?.borders.includes(state.cca3) ? [other.name.common] : [];
  });

/** In alphabetical order by name. */
export const countries: readonly Country[] = states
  .map((state) => ({
    name: state.name.common,
    capital: state.capital[0] ?? "",
    region: state.subregion,
    currency: Object.values(state.currencies)[0]?.name ?? "",
    languages: Object.values(state.languages).slice(0, MAX_LANGUAGES),
    area: Math.round(state.area / 1000),
    borders: neighborsOf(state),
  }))
  .sort((a, b) => (a.name < b.name ? -1 : 1));
