/** @file Reads a page back into its facts: the inverse of pages.ts, for the rewards, which have only the text, and for demonstrations. */
import { CAPITAL_PAGES, COUNTRY_PAGES, NO_NEIGHBOR, patternOf } from "./prose.ts";

export interface ProsePage {
  readonly title: string;
  /**
   * Values by field: `capital`, `currency`, `area`, `region`, `language` and `borders` of a country, `country` and `region` of a
   * capital. A small area is `under 1`.
   */
  readonly facts: ReadonlyMap<string, readonly string[]>;
}

const PATTERNS = [...CAPITAL_PAGES, ...COUNTRY_PAGES].map(patternOf);

/** Undefined for a text that is not a whole page. */
export function readPage(text: string): ProsePage | undefined {
  for (const pattern of PATTERNS) {
    const slots = pattern.exec(text)?.groups;
    if (!slots) continue;
    const { name = "", languages, area, ...rest } = slots;
    const facts = new Map<string, readonly string[]>(
      Object.entries(rest).map(([slot, value = ""]) => [slot, value === NO_NEIGHBOR ? [] : valuesIn(value)]),
    );
    if (languages !== undefined) facts.set("language", languages.split(/, | and /));
    if (area !== undefined) facts.set("area", [area]);
    return { title: name, facts };
  }
  return undefined;
}

/** The links in a slot, or the whole slot if it has none. */
function valuesIn(value: string): string[] {
  const links = [...value.matchAll(/\[([^\]]+)\]/g)].map(([, title = ""]) => title);
  return links.length > 0 ? links : [value];
}
