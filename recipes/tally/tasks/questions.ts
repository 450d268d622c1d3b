/** @file Tasks of the searcher, in turn about a person (level 1) and about a house (level 2), each in a village of its own. */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { stream } from "../../../core/random.ts";
import { entryOf, FIELDS, housesOf, type LedgerField, NAMES, taskOf } from "../world.ts";

const KINDS = ["person", "house"] as const;
export type TaskKind = (typeof KINDS)[number];

const TRAIN = { first: 1, count: 2400 };
/** Villages that no other questions or demonstrations of tally are about. */
const HELD_OUT = { first: 300_001, count: 400 };

export const questionSet = (seed: number): QuestionSet => ({
  train: tasksIn("train", TRAIN, seed),
  heldOut: tasksIn("held-out", HELD_OUT, 0),
});

function tasksIn(split: string, { first, count }: typeof TRAIN, seed: number): Question[] {
  return Array.from({ length: count }, (_, i) => {
    const [village, level] = [first + i, 1 + (i % KINDS.length)];
    const kind = KINDS[level - 1] as TaskKind;
    const random = stream("tally-task", seed, village);
    const field = FIELDS[random.integer(FIELDS.length)] as LedgerField;
    const names = kind === "person" ? NAMES : housesOf(village).map(({ name }) => name);
    const name = names[random.integer(names.length)] as string;
    const answer = String(entryOf(village, name)?.[field]);
    return { id: `${split}-${i}`, kind, level, prompt: taskOf(field, name), answer, facts: { village } };
  });
}
