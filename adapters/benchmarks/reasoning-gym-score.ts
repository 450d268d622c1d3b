/**
 * @file How reasoning-gym scores an answer (version 0.1.25, `score_answer` of each task), in [0, 1]. Partial credit is the same as there, so
 * scores are comparable with published ones.
 *
 *     basic_arithmetic, leg_counting   1 if the answer is the reference; if it contains the reference, length of the reference / length of the answer
 *     chain_sum, products              1 if both are the same number, ignoring commas; otherwise as above, without commas
 *     decimal_chain_sum                1 if both are the same number
 *     gsm_symbolic                     1 if the first number in the answer is the reference, 0.01 if it is another number
 *     family_relationships             1 if the answer is the reference, ignoring case and surrounding space
 *
 * Numbers are read as Python's `Decimal` and `float` read them.
 */
import * as z from "zod";
import { withAsciiDigits } from "./ascii-digits.ts";

/** The tasks that the suite may have, by the names of their generators. */
export const GymTask = z.enum([
  "basic_arithmetic",
  "chain_sum",
  "decimal_chain_sum",
  "family_relationships",
  "gsm_symbolic",
  "leg_counting",
  "products",
]);
export type GymTask = z.infer<typeof GymTask>;

type Rule = (answer: string, reference: string) => number;

const RULES: Readonly<Record<GymTask, Rule>> = {
  basic_arithmetic: contained,
  leg_counting: contained,
  chain_sum: decimal,
  products: decimal,
  decimal_chain_sum: (answer, reference) => (sameDecimal(answer, reference) ? 1 : 0),
  gsm_symbolic: firstNumber,
  family_relationships: (answer, reference) => (folded(answer) === folded(reference) ? 1 : 0),
};

/** A missing or empty answer scores 0. */
export function gymScore(task: GymTask, answer: string | null, reference: string): number {
  return answer === null || answer === "" ? 0 : RULES[task](answer, reference);
}

function contained(answer: string, reference: string): number {
  if (answer === reference) return 1;
  return answer.includes(reference) ? [...reference].length / [...answer].length : 0;
}

function decimal(answer: string, reference: string): number {
  const [given, wanted] = [answer.replaceAll(",", ""), reference.replaceAll(",", "")];
  return sameDecimal(given, wanted) ? 1 : contained(given, wanted);
}

/** What Python's `\w` matches. */
const WORD = "[\\p{L}\\p{N}_]";
/** Python's `\b-?\d+(?:\.\d+)?\b`: a minus sign counts only after a letter, digit or underscore. */
const NUMBER = new RegExp(`(?:(?<=${WORD})-|(?<!${WORD}))\\p{Nd}+(?:\\.\\p{Nd}+)?(?!${WORD})`, "u");

function firstNumber(answer: string, reference: string): number {
  const [found] = NUMBER.exec(answer) ?? [];
  if (found === undefined) return 0;
  return Number(withAsciiDigits(found)) === Number(reference) ? 1 : 0.01;
}

/** Python's `isspace`; JavaScript's `\s` has U+FEFF, but neither U+001C-U+001F nor U+0085. */
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SURROUNDING = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");

const stripped = (text: string): string => text.replace(SURROUNDING, "");
const folded = (text: string): string => stripped(text).toLowerCase();

const DECIMAL = /^([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:e([+-]?\d+))?$/i;

/** Whether both are finite numbers and equal, whatever their number of digits. */
function sameDecimal(a: string, b: string): boolean {
  const [x, y] = [readDecimal(a), readDecimal(b)];
  return x !== undefined && y !== undefined && x.digits === y.digits && x.exponent === y.exponent;
}

/** The number as signed digits * 10^exponent, without zeros at either end; 0 has no digits and exponent 0. Undefined: not a finite number. */
function readDecimal(text: string): { digits: string; exponent: bigint } | undefined {
  const match = DECIMAL.exec(withAsciiDigits(stripped(text).replaceAll("_", "")));
  if (!match) return undefined;
  const [, sign = "", whole = "", fraction = "", bare = "", power = "0"] = match;
  const significant = `${whole}${fraction}${bare}`.replace(/^0+/, "");
  const digits = significant.replace(/0+$/, "");
  if (digits === "") return { digits: "", exponent: 0n };
  const exponent = BigInt(power) - BigInt(`${fraction}${bare}`.length) + BigInt(significant.length - digits.length);
  return { digits: `${sign === "-" ? "-" : ""}${digits}`, exponent };
}
