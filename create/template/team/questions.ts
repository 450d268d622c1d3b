/**
 * @file The questions. Level 1 takes one look-up, level 2 two: who is the friend, then what the friend has. Held-out questions are about
 * villages that no training question is about.
 */
import { stream } from "mgrpo/random";
import type { Question, QuestionSet } from "mgrpo/recipe";
import { FIELDS, type Field, NAMES, villageOf } from "./world.ts";

export interface Draft {
  readonly village: number;
  readonly name: string;
  readonly field: Field;
  /** 1 asks about that person, 2 about that person's friend. */
  readonly level: 1 | 2;
}

const TRAIN = { first: 1, count: 400 };
const HELD_OUT = { first: 10_001, count: 96 };
const HELD_OUT_SEED = 1;

/** The held-out questions are the same for every seed, so that runs with different seeds can be compared. */
export function questionSet(seed: number): QuestionSet {
  return { train: questionsOf(TRAIN, seed), heldOut: questionsOf(HELD_OUT, HELD_OUT_SEED) };
}

function questionsOf({ first, count }: { first: number; count: number }, seed: number): Question[] {
  return Array.from({ length: count }, (_, i) => questionOf(draftOf(first + i, seed)));
}

/** A random question about a village. */
export function draftOf(village: number, seed: number): Draft {
  const random = stream("question", seed, village);
  return {
    village,
    name: NAMES[random.integer(NAMES.length)] ?? "",
    // Any field but the last one, `friend`.
    field: FIELDS[random.integer(FIELDS.length - 1)] ?? "pet",
    level: random.uniform() < 0.5 ? 1 : 2,
  };
}

function questionOf(draft: Draft): Question {
  const { village, level } = draft;
  return {
    id: `village-${village}`,
    kind: level === 1 ? "own" : "friend",
    level,
    prompt: promptOf(draft),
    answer: answerTo(draft),
    // What the tools and the expert's score need to know.
    facts: { village },
  };
}

export const promptOf = ({ name, field, level }: Draft): string =>
  level === 1 ? `What is the ${field} of ${name}?` : `What is the ${field} of the friend of ${name}?`;

export function answerTo({ village, name, field, level }: Draft): string {
  const people = villageOf(village);
  const person = level === 1 ? name : (people.get(name)?.friend ?? "");
  return people.get(person)?.[field] ?? "";
}

export function villageAsked({ facts }: Question): number {
  return (facts as { village: number }).village;
}
