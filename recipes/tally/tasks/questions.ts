/**
 * @file Tasks of the searcher, each in a village of its own: in turn about a person (level 1) and about a house (level 2); and, for training
 * only, one in eight about a house, the others about a person (level 3).
 */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { stream } from "../../../core/random.ts";
import { entryOf, FIELDS, housesOf, type LedgerField, NAMES, taskOf } from "../world.ts";

const KINDS = ["person", "house"] as const;
export type TaskKind = (typeof KINDS)[number];

const TRAIN = { first: 1, count: 2400 };
const RARE_HOUSES = { first: 10_001, count: 2400 };
const RARE_HOUSE_LEVEL = 3;
/** In level 3, one in this many tasks is about a house. */
const RARITY = 8;
/** Villages that no other questions or demonstrations of tally are about. */
const HELD_OUT = { first: 300_001, count: 400 };

export const questionSet = (seed: number): QuestionSet => ({
  train: [...tasksIn("train", TRAIN, seed), ...rareHouseTasks(seed)],
  heldOut: tasksIn("held-out", HELD_OUT, 0),
});

const tasksIn = (split: string, { first, count }: typeof TRAIN, seed: number): Question[] =>
  Array.from({ length: count }, (_, i) => {
    const kind = KINDS[i % KINDS.length] as TaskKind;
    return { id: `${split}-${i}`, level: 1 + KINDS.indexOf(kind), ...taskIn(first + i, kind, seed) };
  });

const rareHouseTasks = (seed: number): Question[] =>
  Array.from({ length: RARE_HOUSES.count }, (_, i) => {
    const kind = i % RARITY === 0 ? "house" : "person";
    return { id: `rare-${i}`, level: RARE_HOUSE_LEVEL, ...taskIn(RARE_HOUSES.first + i, kind, seed) };
  });

function taskIn(village: number, kind: TaskKind, seed: number) {
  const random = stream("tally-task", seed, village);
  const field = FIELDS[random.integer(FIELDS.length)] as LedgerField;
  const names = kind === "person" ? NAMES : housesOf(village).map(({ name }) => name);
  const name = names[random.integer(names.length)] as string;
  const answer = String(entryOf(village, name)?.[field]);
  return { kind, prompt: taskOf(field, name), answer, facts: { village } };
}
