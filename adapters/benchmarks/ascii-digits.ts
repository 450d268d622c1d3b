/** @file Converts the digits of any script to ASCII digits, as Python's `int` and `float` do. */

export const withAsciiDigits = (text: string): string => text.replace(/\p{Nd}/gu, asciiDigit);

/** Unicode encodes digits in runs of ten that begin with 0. Runs may be adjacent, hence the remainder. */
function asciiDigit(digit: string): string {
  const code = digit.codePointAt(0) ?? 0;
  let first = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first--;
  return String((code - first) % 10);
}
