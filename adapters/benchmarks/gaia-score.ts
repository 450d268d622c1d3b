/**
 * @file GAIA's quasi-exact match, exactly as in the leaderboard's `question_scorer`
 * (huggingface.co/spaces/gaia-benchmark/leaderboard, scorer.py). This includes the semantics of Python's `float`, `str.lower` and `\s`.
 *
 *     the reference is a number     the answer without $ % and , is that number
 *     it has a comma or semicolon   the same elements in the same order: numbers as above, text without white space, in lower case
 *     otherwise                     equal without white space and ASCII punctuation, in lower case
 */
import { withAsciiDigits } from "./ascii-digits.ts";

/**
 * White space that Python's `float` strips. Python's `\s` also matches U+001C to U+001F. JavaScript's `\s` matches U+FEFF, but not U+0085.
 */
const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[\\x1c-\\x1f${SPACE}]`, "g");
const SURROUNDING = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");
const PUNCTUATION = /[!-/:-@[-`{-~]/g;

const DIGITS = "\\d+(?:_\\d+)*";
const NUMBER = new RegExp(`^[+-]?(?:${DIGITS}(?:\\.(?:${DIGITS})?)?|\\.${DIGITS})(?:e[+-]?${DIGITS})?$`, "i");
const INFINITY = /^([+-]?)inf(?:inity)?$/i;
const NOT_A_NUMBER = /^[+-]?nan$/i;

/** Whether an answer counts as correct. As on the leaderboard, a missing answer is scored as the text `None`. */
export function isGaiaMatch(answer: string | null, reference: string): boolean {
  const given = answer ?? "None";
  const number = float(reference);
  if (number !== undefined) return equalsNumber(given, number);
  if (!/[,;]/.test(reference)) return normalized(given, true) === normalized(reference, true);
  const [wanted, found] = [reference.split(/[,;]/), given.split(/[,;]/)];
  if (wanted.length !== found.length) return false;
  return wanted.every((element, i) => {
    const answered = found[i] ?? "";
    const value = float(element);
    return value === undefined
      ? normalized(answered, false) === normalized(element, false)
      : equalsNumber(answered, value);
  });
}

/** Like the leaderboard, reads text that is not a number as infinity, which equals no finite reference. */
function equalsNumber(answer: string, reference: number): boolean {
  return (float(answer.replace(/[$%,]/g, "")) ?? Number.POSITIVE_INFINITY) === reference;
}

function normalized(text: string, withoutPunctuation: boolean): string {
  const dense = text.replace(SPACES, "").toLowerCase();
  return withoutPunctuation ? dense.replace(PUNCTUATION, "") : dense;
}

/** Python's `float(text)`; undefined where it raises. Accepts underscores between digits, `inf`, `nan`, and the digits of any script. */
function float(text: string): number | undefined {
  const bare = withAsciiDigits(text.replace(SURROUNDING, ""));
  if (NUMBER.test(bare)) return Number(bare.replaceAll("_", ""));
  if (NOT_A_NUMBER.test(bare)) return Number.NaN;
  const infinity = INFINITY.exec(bare);
  return infinity ? Number(`${infinity[1]}Infinity`) : undefined;
}
