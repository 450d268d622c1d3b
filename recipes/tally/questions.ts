/**
 * @file The questions: the total of one field over the n people of a house, for which a rollout invokes the searcher once, for all of them, or
 * n times. With n = 0, the question itself gives the numbers. Held-out questions are about villages that no training question is about.
 */
import * as z from "zod";
import type { Question, QuestionSet } from "../../core/contracts/question.ts";
import { type Random, stream } from "../../core/random.ts";
import { entryOf, FIELDS, HOUSE_SIZES, type House, housesOf, type LedgerField, QUANTITY_LIMIT } from "./world.ts";

/** Numbers of people that questions are about: very unequal, and on both sides of the recipe's d. */
export const PEOPLE_COUNTS = [0, ...HOUSE_SIZES] as const;
/** The most people of a question of level 1 and of level 2; level 3 has more. */
const LEVEL_LIMITS = [4, 10] as const;

const TRAIN = { first: 1, count: 2400 };
const DEVELOPMENT = { first: 100_001, count: 100 };
const TEST = { first: 200_001, count: 240 };
export const DEVELOPMENT_QUESTIONS = DEVELOPMENT.count;
export const FIRST_DEMONSTRATION_VILLAGE = 1_000_001;

/** The most numbers in a question without people. */
const MAX_NUMBERS = 6;

export interface QuestionDraft {
  readonly village: number;
  readonly field: LedgerField;
  /** The house whose people's quantities are added up. Absent: the numbers are in the question. */
  readonly house?: House;
  /** What is added up: the people's quantities, or the numbers in the question. */
  readonly numbers: readonly number[];
}

export const Facts = z.strictObject({ village: z.int().nonnegative() });

export function questionSet(seed: number): QuestionSet {
  const heldOut = [...questionsOf("development", DEVELOPMENT, 0), ...questionsOf("test", TEST, 0)];
  return { train: questionsOf("train", TRAIN, seed), heldOut };
}

/** The counts cycle, so every prefix has each about equally often. */
function questionsOf(split: string, { first, count }: typeof TRAIN, seed: number): Question[] {
  return Array.from({ length: count }, (_, i) => {
    const people = PEOPLE_COUNTS[i % PEOPLE_COUNTS.length] as number;
    return questionOf(`${split}-${i}`, draftOf(first + i, people, stream("tally-question", seed, first + i)));
  });
}

export function draftOf(village: number, people: number, random: Random): QuestionDraft {
  const field = FIELDS[random.integer(FIELDS.length)] as LedgerField;
  const house = housesOf(village).find((one) => one.people.length === people);
  if (house)
    return { village, field, house, numbers: house.people.map((name) => entryOf(village, name)?.[field] ?? 0) };
  const count = 2 + random.integer(MAX_NUMBERS - 1);
  return { village, field, numbers: Array.from({ length: count }, () => random.integer(QUANTITY_LIMIT)) };
}

/** `Total hens of Birch: Ada, Ben, Cleo, Dov`, or `Total of 3, 5`. */
export function promptOf({ field, house, numbers }: QuestionDraft): string {
  return house ? `Total ${field} of ${house.name}: ${house.people.join(", ")}` : `Total of ${numbers.join(", ")}`;
}

const totalOf = ({ numbers }: QuestionDraft): number => numbers.reduce((sum, value) => sum + value, 0);

function questionOf(id: string, draft: QuestionDraft): Question {
  const n = draft.house?.people.length ?? 0;
  const level = LEVEL_LIMITS.filter((most) => n > most).length + 1;
  const facts: z.infer<typeof Facts> = { village: draft.village };
  return { id, kind: `${n} people`, level, prompt: promptOf(draft), answer: String(totalOf(draft)), facts };
}

export const villageAsked = ({ facts }: Pick<Question, "facts">): number => Facts.safeParse(facts).data?.village ?? 0;
