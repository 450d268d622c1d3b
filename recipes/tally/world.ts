/** @file A village's ledger: what every person owns, a function of the village's number. */
import { stream } from "../../core/random.ts";

export const NAMES: readonly string[] = (
  "Ada Ben Cleo Dov Edda Finn Gaia Hugo Ines Joel Kaya Liam Mara Nils Olga Pia Quinn Rosa Sami Tess Ugo Vera Walt Xena " +
  "Yann Zoe Amir Bela Cora Dina Emil Faye Gus Hana Ivo Jana Kurt Lena Milo Nora"
).split(" ");

export const FIELDS = ["hens", "boats", "coins", "goats", "bees", "nets"] as const;
export type LedgerField = (typeof FIELDS)[number];
export type LedgerEntry = Readonly<Record<LedgerField, number>>;

/** Every quantity is below this. */
export const QUANTITY_LIMIT = 40;

/** What a person of the village owns; undefined for an unknown name. */
export function entryOf(village: number, name: string): LedgerEntry | undefined {
  if (!NAMES.includes(name)) return undefined;
  const random = stream("tally-village", village, name);
  return Object.fromEntries(FIELDS.map((field) => [field, random.integer(QUANTITY_LIMIT)])) as LedgerEntry;
}

/** `hens 4, boats 12, …`: a person's page in the ledger. */
export const pageOf = (entry: LedgerEntry): string => FIELDS.map((field) => `${field} ${entry[field]}`).join(", ");

/** A searcher's report: the number asked for, then the whole page that shows it. */
export const reportOf = (value: number, page: string): string => `${value}: ${page}`;

export const taskOf = (field: LedgerField, name: string): string => `${field} of ${name}`;

/** The inverse of `taskOf`; undefined for any other text. */
export function parseTask(text: string): { readonly field: LedgerField; readonly name: string } | undefined {
  const [, asked, name] = /^(\w+) of (\w+)$/.exec(text.trim()) ?? [];
  const field = FIELDS.find((one) => one === asked);
  return field && name !== undefined ? { field, name } : undefined;
}
