/**
 * @file Text without unpaired surrogates, which UTF-8 cannot encode. Servers refuse requests that contain one. Pages, tools and models produce
 * them: JSON can spell one (`"\ud83d"`), and programs cut text in the middle of a pair.
 */

/** Replaces each unpaired surrogate with U+FFFD, as `TextEncoder` does. */
export const toWellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, "\ufffd");

/** A copy of a JSON value, with each unpaired surrogate in its strings and keys replaced by U+FFFD. */
export function toWellFormedJson<T>(value: T): T {
  // JSON.stringify writes only unpaired surrogates as `\ud…`. A backslash of the text itself is doubled.
  const text = JSON.stringify(value).replace(
    /(\\\\)|\\ud[0-9a-f]{3}/g,
    (_, backslash?: string) => backslash ?? "\ufffd",
  );
  return JSON.parse(text) as T;
}

/** A prefix of a text, without the first half of a surrogate pair at its end. */
export const wholeCharacters = (prefix: string): string =>
  /[\uD800-\uDBFF]/.test(prefix.at(-1) ?? "") ? prefix.slice(0, -1) : prefix;

/** The longest prefix of at most `characters` UTF-16 code units. It does not split a surrogate pair, unless only one unit is allowed. */
export function clip(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const prefix = text.slice(0, characters);
  return wholeCharacters(prefix) || prefix;
}
