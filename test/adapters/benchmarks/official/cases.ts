/**
 * @file Cases for the comparison with the benchmarks' official code (README.md), drawn from a fixed seed. An answer is usually a small change
 * of the reference, so that right and wrong answers are both frequent.
 */
import { encrypt } from "../../../../core/contracts/encryption.ts";
import { type Random, stream } from "../../../../core/random.ts";

export interface Pair {
  readonly answer: string;
  readonly reference: string;
}

export interface GymCase extends Pair {
  readonly task: string;
}

export const anyOf = <T>(values: readonly T[], random: Random): T => values[random.integer(values.length)] as T;
export const times = <T>(n: number, draw: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => draw(i));

const WORDS = [
  "Paris",
  "sea gull",
  "O'Neil",
  "St. Ives",
  "Straße",
  "École",
  "東京",
  "İzmir",
  "ΟΔΟΣ",
  "x-ray",
  "None",
  "inf",
];
const SPACES = [" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u200b", "\u001c", "\u0085", "\ufeff", "\u2028"];
const MARKS = [..."!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "–", "“", "€", "²", "½", "一"];
const SCRIPTS = ["٠", "０", "𝟎", "०"];

/** The same digits in another script. */
function inScript(text: string, random: Random): string {
  const zero = anyOf(SCRIPTS, random).codePointAt(0) ?? 0;
  return text.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));
}

function number(random: Random): string {
  const whole = String(random.integer(10 ** (1 + random.integer(6))));
  const sign = anyOf(["", "", "", "-", "+"], random);
  return (
    sign + anyOf([whole, whole, `${whole}.${random.integer(1000)}`, `${whole}.0`, `.${whole}`, `${whole}e3`], random)
  );
}

const word = (random: Random): string => anyOf(WORDS, random);

export function reference(random: Random): string {
  switch (random.integer(5)) {
    case 0:
    case 1:
      return number(random);
    case 2:
      return word(random);
    case 3:
      return `${random.integer(90)} ${word(random)}`;
    default:
      return times(2 + random.integer(3), () => (random.integer(2) ? number(random) : word(random))).join(
        anyOf([", ", ",", "; ", ";"], random),
      );
  }
}

type Change = (text: string, random: Random) => string;

function inserted(marks: readonly string[]): Change {
  return (text, random) => {
    const characters = [...text];
    return characters.toSpliced(random.integer(characters.length + 1), 0, anyOf(marks, random)).join("");
  };
}

const CHANGES: readonly Change[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => text.toLowerCase(),
  inserted(SPACES),
  inserted(MARKS),
  inserted(["$", "%", ",", "_", ".", "0"]),
  (text, random) => inScript(text, random),
  (text, random) => [...text].slice(0, random.integer(text.length + 1)).join(""),
  (text) => text.replaceAll(",", ";"),
  (text) => text.split(", ").reverse().join(", "),
  (text) => text.replace(/(\d)(\d{3})\b/, "$1,$2"),
  (text) => `${text}.0`,
  (text) => `0${text}`,
  (text) => text.replace(/^[+-]/, ""),
  (_text, random) => reference(random),
  (text, random) => `${word(random)} ${text}`,
  (text) => `${text} km`,
];

export function changed(text: string, random: Random): string {
  return times(random.integer(3), () => anyOf(CHANGES, random)).reduce((now, change) => change(now, random), text);
}

export function gaiaCases(): Pair[] {
  const random = stream("official", "gaia");
  return times(6000, () => {
    const wanted = reference(random);
    return { reference: wanted, answer: changed(wanted, random) };
  });
}

const RELATIONS = ["mother", "father", "sister", "mother-in-law", "grandfather"];

const GYM: Readonly<Record<string, (random: Random) => string>> = {
  ...{ basic_arithmetic: integer, leg_counting: integer, chain_sum: integer, products: integer, gsm_symbolic: integer },
  decimal_chain_sum: (random) => `${integer(random)}.${1 + random.integer(9999)}`,
  family_relationships: (random) => anyOf(RELATIONS, random),
};

function integer(random: Random): string {
  return String(random.integer(10 ** (1 + random.integer(5))) - anyOf([0, 0, 500], random));
}

export function gymCases(): GymCase[] {
  const random = stream("official", "reasoning-gym");
  const tasks = Object.keys(GYM);
  return times(7000, (i) => {
    const task = tasks[i % tasks.length] as string;
    const wanted = GYM[task]?.(random) ?? "";
    return { task, reference: wanted, answer: changed(wanted, random) };
  });
}

export const CANARY = "canary GUID xbench-DeepSearch-2510:00000000-0000-4000-8000-000000000000";

export function plain(random: Random): string {
  return `${times(1 + random.integer(30), () => anyOf([word, number, reference], random)(random)).join(anyOf(SPACES, random))}?`;
}

/** The plain text of each row of an xbench file. */
function xbenchRows(): { id: string; prompt: string; answer: string }[] {
  const random = stream("official", "xbench");
  return times(1000, (i) => ({ id: String(i + 1), prompt: plain(random), answer: reference(random) }));
}

/** The rows as a file, encrypted. */
export function xbenchFile(): string {
  const rows = xbenchRows().map(({ id, prompt, answer }) =>
    [id, encrypt(prompt, CANARY), encrypt(answer, CANARY), '"of ""test"", data"', CANARY].join(","),
  );
  return `\ufeff${["id,prompt,answer,reference_steps,canary", ...rows].join("\r\n")}\r\n`;
}

export function xbenchMatches(): Pair[] {
  const random = stream("official", "xbench-match");
  return times(4000, () => {
    const wanted = reference(random);
    return { reference: wanted, answer: changed(wanted, random) };
  });
}

/**
 * Made-up rows of WebWalkerQA, each with an answer. About two thirds of the answers are the reference alone; the others are the question and the
 * reference. The judge's stand-ins, in official.test.ts and in run.py, accept only these others, so a verdict depends on the question and the
 * reference that the judge is given.
 */
export function walkerRows() {
  const random = stream("official", "webwalkerqa");
  return times(2000, (i) => {
    const task = {
      question: `${plain(random)} ${i}`,
      answer: reference(random),
      root_url: `https://site-${i}.example/`,
      info: {
        domain: anyOf(["conference", "education", "game", "organization"], random),
        difficulty_level: anyOf(["easy", "medium", "hard"], random),
        lang: anyOf(["en", "zh"], random),
        type: anyOf(["single_source", "multi_source"], random),
      },
    };
    return { task, answer: random.integer(3) === 0 ? `${task.question}\n${task.answer}` : task.answer };
  });
}
