/** @file A village's ledger: its houses, who lives in them and what everybody owns, a function of the village's number. */
import { stream } from "../../core/random.ts";
import { sum } from "../../core/statistics.ts";

export const NAMES: readonly string[] = (
  "Ada Ben Cleo Dov Edda Finn Gaia Hugo Ines Joel Kaya Liam Mara Nils Olga Pia Quinn Rosa Sami Tess Ugo Vera Walt Xena " +
  "Yann Zoe Amir Bela Cora Dina Emil Faye Gus Hana Ivo Jana Kurt Lena Milo Nora"
).split(" ");

const HOUSES: readonly string[] = "Alder Aspen Beech Birch Cedar Hazel Larch Linden Maple Oak Rowan Willow".split(" ");

/** How many people live in each house of a village; together, they are all of NAMES. */
export const HOUSE_SIZES = [4, 6, 10, 20] as const;

export const FIELDS = ["hens", "boats", "coins", "goats", "bees", "nets"] as const;
export type LedgerField = (typeof FIELDS)[number];
export type LedgerEntry = Readonly<Record<LedgerField, number>>;

/** Every quantity of a person is below this. */
export const QUANTITY_LIMIT = 40;

export interface House {
  readonly name: string;
  readonly people: readonly string[];
}

/** The village's houses, in the order of HOUSE_SIZES. */
export function housesOf(village: number): readonly House[] {
  const random = stream("tally-houses", village);
  const people = random.choose(NAMES.length, NAMES.length).map((i) => NAMES[i] as string);
  return random.choose(HOUSES.length, HOUSE_SIZES.length).map((house, i) => {
    const before = sum(HOUSE_SIZES.slice(0, i));
    return { name: HOUSES[house] as string, people: people.slice(before, before + (HOUSE_SIZES[i] as number)) };
  });
}

/** What a person or a house of the village owns; undefined for an unknown name. */
export const entryOf = (village: number, name: string): LedgerEntry | undefined =>
  personEntry(village, name) ?? houseEntry(village, name);

export function personEntry(village: number, name: string): LedgerEntry | undefined {
  if (!NAMES.includes(name)) return undefined;
  const random = stream("tally-village", village, name);
  return entryFrom(() => random.integer(QUANTITY_LIMIT));
}

/** The sum of what the people of the house own. */
export function houseEntry(village: number, name: string): LedgerEntry | undefined {
  const house = housesOf(village).find((one) => one.name === name);
  const entries = house?.people.flatMap((person) => personEntry(village, person) ?? []);
  return entries && entryFrom((field) => sum(entries.map((entry) => entry[field])));
}

const entryFrom = (quantityOf: (field: LedgerField) => number): LedgerEntry =>
  Object.fromEntries(FIELDS.map((field) => [field, quantityOf(field)])) as LedgerEntry;

/** `hens 4, boats 12, …`: the page of a person or a house in the ledger. */
export const pageOf = (entry: LedgerEntry): string => FIELDS.map((field) => `${field} ${entry[field]}`).join(", ");

/** The report on a person: the number asked for, then the whole page that shows it. */
export const personReport = (value: number, page: string): string => `${value}: ${page}`;

/** The report on a house, such as `212 in all`. */
export const houseReport = (value: number): string => `${value} in all`;

export const taskOf = (field: LedgerField, name: string): string => `${field} of ${name}`;

/** The inverse of `taskOf`; undefined for any other text. */
export function parseTask(text: string): { readonly field: LedgerField; readonly name: string } | undefined {
  const [, asked, name] = /^(\w+) of (\w+)$/.exec(text.trim()) ?? [];
  const field = FIELDS.find((one) => one === asked);
  return field && name !== undefined ? { field, name } : undefined;
}
