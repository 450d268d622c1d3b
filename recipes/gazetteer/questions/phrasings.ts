/**
 * @file How things are asked in English. Every phrasing of a question is on one side of the split: a training question or a demonstration
 * has only training phrasings, a held-out question only held-out ones. read-task.ts reads both sides.
 */
import type { Random } from "../../../core/random.ts";
import type { Asked, Condition, LookUp } from "../../atlas/questions/look-up.ts";
import type { Side } from "../../atlas/questions/split.ts";
import { fillIn } from "../world/prose.ts";

/** Texts with slots, by side. */
export type Phrasings = Readonly<Record<Side, readonly string[]>>;

export const ofBothSides = (phrasings: Phrasings): string[] => [...phrasings.training, ...phrasings["held-out"]];

/** Predicates of a country that state a condition; `{value}` is the condition's value. */
export const CONDITIONS: Readonly<Record<Condition["field"], Phrasings>> = {
  capital: {
    training: [
      "has the capital {value}",
      "has {value} as its capital",
      "is governed from {value}",
      "is ruled from {value}",
      "calls {value} its capital city",
    ],
    "held-out": ["counts {value} as its capital", "has its government in {value}"],
  },
  borders: {
    training: [
      "borders {value}",
      "shares a border with {value}",
      "lies next to {value}",
      "adjoins {value}",
      "has {value} next door",
    ],
    "held-out": ["is a neighbor of {value}", "touches {value}"],
  },
  currency: {
    training: [
      "uses the {value}",
      "pays with the {value}",
      "has the {value} as its currency",
      "trades in the {value}",
      "has money called the {value}",
    ],
    "held-out": ["spends the {value}", "has the {value} for money"],
  },
  language: {
    training: [
      "speaks {value}",
      "has {value} among its languages",
      "has people who speak {value}",
      "uses {value} as a language",
    ],
    "held-out": ["counts {value} as a language", "is home to speakers of {value}"],
  },
};

/** Questions that ask for a country; `{does}` is what holds for it, as predicates. */
export const COUNTRY: Phrasings = {
  training: [
    "Which country {does}?",
    "Name the country that {does}.",
    "What country {does}?",
    "Give the state that {does}.",
    "Which is the country that {does}?",
  ],
  "held-out": ["Which nation {does}?", "Tell me which land {does}."],
};

/** A country that is described, not named, as part of another question. */
export const DESCRIBED: Phrasings = {
  training: ["the country that {does}", "the state that {does}", "the one country that {does}"],
  "held-out": ["the nation that {does}", "the land that {does}"],
};

/** Questions that ask for a fact about a country, named or described. */
export const FACTS: Readonly<Record<Asked, Phrasings>> = {
  capital: {
    training: [
      "What is the capital of {of}?",
      "Which city is the capital of {of}?",
      "Name the capital of {of}.",
      "Find the capital city of {of}.",
      "Give the capital of {of}.",
    ],
    "held-out": ["What city serves as the capital of {of}?", "Tell me the capital city of {of}."],
  },
  currency: {
    training: [
      "What is the currency of {of}?",
      "Which currency is used in {of}?",
      "Name the currency of {of}.",
      "With what money does one pay in {of}?",
      "Which money is used in {of}?",
    ],
    "held-out": ["What money do people use in {of}?", "Tell me what currency is spent in {of}."],
  },
  area: {
    training: [
      "What is the area of {of} in thousand km2?",
      "How large is {of} in thousand km2?",
      "How many thousand km2 are there in {of}?",
      "What area does {of} cover in thousand km2?",
      "Give the size of {of} in thousand km2.",
    ],
    "held-out": ["How big is {of} in thousand km2?", "Tell me the size of {of} in thousand km2."],
  },
};

export type Operator = "-" | "+";

/** Questions that ask for a number that no page states. */
export const COMPARISONS: Readonly<Record<Operator, Phrasings>> = {
  "-": {
    training: [
      "How much larger is {a} than {b} in thousand km2?",
      "By how many thousand km2 is {a} larger than {b}?",
      "What is the area of {a} minus that of {b} in thousand km2?",
      "How many thousand km2 larger is {a} than {b}?",
      "Subtract the area of {b} from that of {a} in thousand km2.",
    ],
    "held-out": ["By how many thousand km2 does {a} exceed {b}?", "How much bigger than {b} is {a} in thousand km2?"],
  },
  "+": {
    training: [
      "What is the total area of {a} and {b} in thousand km2?",
      "How large are {a} and {b} together in thousand km2?",
      "What is the area of {a} plus that of {b} in thousand km2?",
      "What do the areas of {a} and {b} add up to in thousand km2?",
      "What area do {a} and {b} cover together in thousand km2?",
    ],
    "held-out": ["How big are {a} and {b} combined in thousand km2?", "Add the sizes of {a} and {b} in thousand km2."],
  },
};

/** Tasks for a searcher, in fewer phrasings than questions have. Only demonstrations use them, so they are not split. */
const TASKS = {
  country: ["Which country {does}?", "Find the country that {does}."],
  fact: ["What is the {asked} of {of}?", "Find the {asked} of {of}."],
};

/** The look-up as a task, in one of the phrasings of demonstrations. */
export function taskFor(lookUp: LookUp, random: Random): string {
  if (lookUp.ask === "country")
    return fillIn(anyOf(TASKS.country, random), { does: does(lookUp.where, "training", random) });
  return fillIn(anyOf(TASKS.fact, random), { asked: lookUp.ask, of: lookUp.of });
}

/** The look-up as a question. */
export function questionFor(lookUp: LookUp, side: Side, random: Random): string {
  if (lookUp.ask !== "country") return factQuestion(lookUp.ask, lookUp.of, side, random);
  return fillIn(anyOf(COUNTRY[side], random), { does: does(lookUp.where, side, random) });
}

export function factQuestion(asked: Asked, of: string, side: Side, random: Random): string {
  return fillIn(anyOf(FACTS[asked][side], random), { of });
}

/** A country described by conditions, as part of a question. */
export function described(where: readonly Condition[], side: Side, random: Random): string {
  return fillIn(anyOf(DESCRIBED[side], random), { does: does(where, side, random) });
}

export function comparison(operator: Operator, [a, b]: readonly [string, string], side: Side, random: Random): string {
  return fillIn(anyOf(COMPARISONS[operator][side], random), { a, b });
}

function does(where: readonly Condition[], side: Side, random: Random): string {
  return where.map(({ field, value }) => fillIn(anyOf(CONDITIONS[field][side], random), { value })).join(" and ");
}

const anyOf = (texts: readonly string[], random: Random): string => texts[random.integer(texts.length)] as string;
