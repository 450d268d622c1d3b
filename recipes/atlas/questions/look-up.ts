/**
 * @file A look-up is one thing to find: as data, as a task's text, and as its answers in a world. Questions are chains of look-ups.
 * A task parses back into its look-up, so that a program can judge it.
 */
import type { Country } from "../world/countries.ts";
import type { World } from "../world/world.ts";

export const ASKED = ["capital", "currency", "area"] as const;
export type Asked = (typeof ASKED)[number];

const CONDITION_FIELDS = ["capital", "borders", "currency", "language"] as const;
export interface Condition {
  readonly field: (typeof CONDITION_FIELDS)[number];
  readonly value: string;
}

/** A fact about a named country, or the country that meets all conditions. */
export type LookUp =
  | { readonly ask: Asked; readonly of: string }
  | { readonly ask: "country"; readonly where: readonly Condition[] };

const FACT_TASK = new RegExp(`^(${ASKED.join("|")}) of (.+)$`);
const CONDITION = new RegExp(`^(${CONDITION_FIELDS.join("|")}) (.+)$`);

/** `capital of Jordan`, `country with borders Iraq, currency Jordanian dinar`. */
export function taskOf(lookUp: LookUp): string {
  if (lookUp.ask !== "country") return `${lookUp.ask} of ${lookUp.of}`;
  return `country with ${lookUp.where.map(({ field, value }) => `${field} ${value}`).join(", ")}`;
}

/** The inverse of `taskOf`, whatever the whitespace; undefined for any other text. */
export function parseTask(text: string): LookUp | undefined {
  const task = text.replace(/\s+/g, " ").trim();
  const fact = FACT_TASK.exec(task);
  if (fact) return { ask: fact[1] as Asked, of: fact[2] as string };
  const conditions = /^country with (.+)$/.exec(task)?.[1]?.split(", ");
  if (!conditions) return undefined;
  const where = conditions.flatMap((condition): Condition[] => {
    const match = CONDITION.exec(condition);
    return match ? [{ field: match[1] as Condition["field"], value: match[2] as string }] : [];
  });
  return where.length === conditions.length ? { ask: "country", where } : undefined;
}

/** The names that a search for the look-up's answer must contain. */
export function termsOf(lookUp: LookUp): string[] {
  return lookUp.ask === "country" ? lookUp.where.map(({ value }) => value) : [lookUp.of];
}

/** Every correct answer in a world. Questions ask only for what has exactly one. */
export function answersTo(lookUp: LookUp, world: World): string[] {
  if (lookUp.ask !== "country") {
    const country = world.countries.get(lookUp.of);
    return country ? [factOf(country, lookUp.ask)] : [];
  }
  return [...world.countries.values()]
    .filter((country) => lookUp.where.every((condition) => holds(country, condition)))
    .map((country) => country.name);
}

export const factOf = (country: Country, asked: Asked): string => String(country[asked]);

function holds(country: Country, { field, value }: Condition): boolean {
  if (field === "borders") return country.borders.includes(value);
  if (field === "language") return country.languages.includes(value);
  return country[field] === value;
}
