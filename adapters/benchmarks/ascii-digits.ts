/** @file Digits of any script as ASCII digits, as Python's number parsers read them. */

export const withAsciiDigits = (text: string): string => text.replace(/\p{Nd}/gu, asciiDigit);

/** Unicode encodes digits in runs of ten, 0 first. Runs can be adjacent, hence the remainder. */
function asciiDigit(digit: string): string {
  const code = digit.codePointAt(0) ?? 0;
  let zero = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--;
  return String((code - zero) % 10);
}
