/**
 * @file Text without unpaired surrogates, which have no form in UTF-8. Servers refuse requests that contain one. They come from pages, tools and
 * models: JSON can spell one (`"\ud83d"`), and programs cut text in the middle of a pair.
 */

/** Each becomes U+FFFD, as in `TextEncoder`. */
export const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, "\ufffd");

/** A copy of a value that consists of JSON. In its strings and names, each becomes U+FFFD. */
export function wellFormedJson<T>(value: T): T {
  // JSON.stringify writes only unpaired surrogates as `\ud…`. A backslash of the text itself is doubled.
  const text = JSON.stringify(value).replace(
    /(\\\\)|\\ud[0-9a-f]{3}/g,
    (_, backslash?: string) => backslash ?? "\ufffd",
  );
  return JSON.parse(text) as T;
}
