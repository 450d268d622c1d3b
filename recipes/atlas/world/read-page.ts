/** @file Parses a page into its fields: the inverse of pages.ts, for the rewards, which have only the text. */

export interface Page {
  readonly title: string;
  /** Values, without link brackets and units, by lower-case field name. */
  readonly fields: ReadonlyMap<string, string>;
}

export function readPage(text: string): Page {
  const [title = "", ...lines] = text.split("\n");
  const fields = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = /^([^:]+): (.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) {
      fields.set(name.toLowerCase(), value.replace(/[[\]]/g, "").replace(/ thousand km2$/, ""));
    }
  }
  return { title, fields };
}
