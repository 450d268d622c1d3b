/**
 * @file Worlds. World 0 is the real one. Every other number stands for a world with the same countries and permuted facts: one permutation
 * each of capitals, regions, currencies, languages and areas, and one relabeling of the map of borders. In every world, each fact has the
 * same values, equally often, and the map of borders the same shape, but facts memorized in one world do not transfer to another.
 */
import { stream } from "../../../core/random.ts";
import { type Country, countries } from "./countries.ts";

export interface World {
  readonly number: number;
  /** By name, in alphabetical order. */
  readonly countries: ReadonlyMap<string, Country>;
}

const worlds = new Map<number, World>();

/** Built once per number. */
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
  const permutationOf = (fact: string) => stream("atlas-world", number, fact).choose(n, n);
  const [capitals, regions, currencies, languages, areas, positions] = [
    permutationOf("capital"),
    permutationOf("region"),
    permutationOf("currency"),
    permutationOf("languages"),
    permutationOf("area"),
    permutationOf("borders"),
  ];
  const at = (i: number | undefined) => countries[i as number] as Country;
  // Country i takes the place of country positions[i] on the map; `labels` names the country that takes each country's place.
  const labels = new Map(countries.map((country, i) => [at(positions[i]).name, country.name]));
  return countries.map((country, i) => ({
    name: country.name,
    capital: at(capitals[i]).capital,
    region: at(regions[i]).region,
    currency: at(currencies[i]).currency,
    languages: at(languages[i]).languages,
    area: at(areas[i]).area,
    borders: at(positions[i]).borders.map((name) => labels.get(name) as string),
  }));
}
