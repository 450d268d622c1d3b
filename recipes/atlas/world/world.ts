/**
 * @file Worlds. World 0 is the real one. Every other number names a world in which the names are kept and the facts are
 * dealt out anew: one permutation each of capitals, regions, currencies, languages and areas, and one relabelling of the
 * map of borders, so that each world has the same structure and nothing learnt by heart in one is true in another.
 */
import { stream } from "../../../core/random.ts";
import { type Country, countries } from "./countries.ts";

export interface World {
  readonly number: number;
  /** By name, in the order of the names. */
  readonly countries: ReadonlyMap<string, Country>;
}

const worlds = new Map<number, World>();

/** The world of that number; built once. */
export function worldOf(number: number): World {
  const known = worlds.get(number);
  if (known) return known;
  const list = number === 0 ? countries : permuted(number);
  const world = { number, countries: new Map(list.map((country) => [country.name, country])) };
  worlds.set(number, world);
  return world;
}

function permuted(number: number): Country[] {
  const n = countries.length;
  const deal = (fact: string) => stream("atlas-world", number, fact).choose(n, n);
  const [capitals, regions, currencies, languages, areas, map] = [
    deal("capital"),
    deal("region"),
    deal("currency"),
    deal("languages"),
    deal("area"),
    deal("borders"),
  ];
  const at = (i: number | undefined) => countries[i ?? 0] as Country;
  // `map` puts country i on the place of country map[i]; `labels` says who stands on a place now.
  const labels = new Map(countries.map((country, i) => [at(map[i]).name, country.name]));
  return countries.map((country, i) => ({
    name: country.name,
    capital: at(capitals[i]).capital,
    region: at(regions[i]).region,
    currency: at(currencies[i]).currency,
    languages: at(languages[i]).languages,
    area: at(areas[i]).area,
    borders: at(map[i]).borders.map((place) => labels.get(place) ?? place),
  }));
}
