/**
 * @file The wordings of pages. A page is one of them with its `{slots}` filled in, and reading a page is matching it against them:
 * pages.ts writes what read-page.ts reads. `[Brackets]` are links: titles of other pages.
 */

/** A country's page. Every wording has every slot, in its own order. */
export const COUNTRY_PAGES: readonly string[] = [
  "{name} is a country in {region}. Its capital is {capital}. People speak {languages} and pay with the {currency}. It covers {area} thousand km2 and borders {borders}.",
  "{name} lies in {region} and borders {borders}. Its area is {area} thousand km2. {capital} is the capital, the {currency} is the currency, and the people speak {languages}.",
  "The {currency} is the currency of {name}, a state in {region} of {area} thousand km2. It is governed from {capital} and borders {borders}. Its people speak {languages}.",
];

/** The page of a capital. */
export const CAPITAL_PAGES: readonly string[] = [
  "{name} is a city in {region} and the capital of {country}.",
  "The city of {name} is the capital of {country}, in {region}.",
];

/** Stands for the neighbors of a country that has none. */
export const NO_NEIGHBOR = "no other country";
/** Stands for an area that rounds to 0. */
export const SMALL_AREA = "under 1";

const SLOT = /\{(\w+)\}/g;

export function fillIn(wording: string, values: Readonly<Record<string, string>>): string {
  return wording.replace(SLOT, (_, slot: string) => values[slot] ?? "");
}

/** What a slot can hold. Other slots hold names without periods or brackets. */
const CONTENTS: Readonly<Record<string, string>> = {
  name: String.raw`[^[\]]+?`,
  capital: String.raw`\[[^\]]+\]`,
  country: String.raw`\[[^\]]+\]`,
  area: String.raw`\d+|${SMALL_AREA}`,
  borders: String.raw`\[[^\]]+\](?:(?:, | and )\[[^\]]+\])*|${NO_NEIGHBOR}`,
};
const NAMES = String.raw`[^.[\]]+?`;

/** Matches every text that `fillIn` makes of the wording; the slots are named groups. */
export function patternOf(wording: string): RegExp {
  const parts = wording.split(/(\{\w+\})/).map((part) => {
    const slot = /^\{(\w+)\}$/.exec(part)?.[1];
    return slot === undefined ? escapeRegExp(part) : `(?<${slot}>${CONTENTS[slot] ?? NAMES})`;
  });
  return new RegExp(`^${parts.join("")}$`);
}

export const escapeRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
