/**
 * @file The questions: the total of one field over n people, each of whom takes one invocation of the searcher, with n up to 20. With n = 0, the
 * question itself gives the numbers. Held-out questions are about villages that no training question is about.
 */
import * as z from "zod";
import type { Question, QuestionSet } from "../../core/contracts/question.ts";
import { type Random, stream } from "../../core/random.ts";
import { entryOf, FIELDS, type LedgerField, NAMES, QUANTITY_LIMIT } from "./world.ts";

/** Numbers of invocations that questions need: very unequal, and on both sides of the recipe's d. */
export const INVOCATION_COUNTS = [0, 1, 2, 3, 5, 8, 13, 20] as const;
/** The most invocations of a question of level 1 and of level 2; level 3 needs more. */
const LEVEL_LIMITS = [2, 8] as const;

const TRAIN = { first: 1, count: 2400 };
const DEVELOPMENT = { first: 100_001, count: 96 };
const TEST = { first: 200_001, count: 240 };
export const DEVELOPMENT_QUESTIONS = DEVELOPMENT.count;
export const FIRST_DEMONSTRATION_VILLAGE = 1_000_001;

/** The most numbers in a question without people. */
const MAX_NUMBERS = 6;

export interface QuestionDraft {
  readonly village: number;
  readonly field: LedgerField;
  /** The people whose quantities are added up. Empty: the numbers are in the question. */
  readonly names: readonly string[];
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
    const people = INVOCATION_COUNTS[i % INVOCATION_COUNTS.length] as number;
    return questionOf(`${split}-${i}`, draftOf(first + i, people, stream("tally-question", seed, first + i)));
  });
}

export function draftOf(village: number, people: number, random: Random): QuestionDraft {
  const names = random.choose(NAMES.length, people).map((i) => NAMES[i] as string);
  const field = FIELDS[random.integer(FIELDS.length)] as LedgerField;
  const count = people > 0 ? 0 : 2 + random.integer(MAX_NUMBERS - 1);
  const numbers =
    people > 0
      ? names.map((name) => entryOf(village, name)?.[field] ?? 0)
      : Array.from({ length: count }, () => random.integer(QUANTITY_LIMIT));
  return { village, field, names, numbers };
}

/** `Total hens of Ada, Ben`, or `Total of 3, 5`. */
export function promptOf({ field, names, numbers }: QuestionDraft): string {
  return names.length > 0 ? `Total ${field} of ${names.join(", ")}` : `Total of ${numbers.join(", ")}`;
}

const totalOf = ({ numbers }: QuestionDraft): number => numbers.reduce((sum, value) => sum + value, 0);

function questionOf(id: string, draft: QuestionDraft): Question {
  const n = draft.names.length;
  const level = LEVEL_LIMITS.filter((most) => n > most).length + 1;
  const facts: z.infer<typeof Facts> = { village: draft.village };
  return { id, kind: `${n} calls`, level, prompt: promptOf(draft), answer: String(totalOf(draft)), facts };
}

export const villageAsked = ({ facts }: Pick<Question, "facts">): number => Facts.safeParse(facts).data?.village ?? 0;
