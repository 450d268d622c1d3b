/**
 * @file The question sets. Training asks about permuted worlds, with look-ups of the training side of the split (split.ts); evaluation asks
 * with held-out look-ups. No two held-out questions have the same chain. These have four splits, in this order: `development` guides choices,
 * `test` is reported, both about the real world; `confirmation` and `stages`, each about worlds that no other split uses, are each for one
 * comparison (docs/findings.md).
 */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { type Random, stream } from "../../../core/random.ts";
import { worldOf } from "../world/world.ts";
import { type Facts, factsOf, REAL_WORLD } from "./facts.ts";
import { type Draft, KINDS } from "./kinds.ts";
import { answersTo, taskOf } from "./look-up.ts";
import { isOn } from "./split.ts";

const TRAINING_WORLDS = { first: 1, count: 12 };
/** Demonstrations use separate worlds. */
export const DEMONSTRATION_WORLDS = { first: 101, count: 12 };
const TRAINING_QUESTIONS = 3000;
export const DEVELOPMENT_QUESTIONS = 96;
export const TEST_QUESTIONS = 336;
const CONFIRMATION_QUESTIONS = 336;
const STAGES_QUESTIONS = 336;

export function questionSet(seed: number): QuestionSet {
  const random = stream(seed, "atlas-training-questions");
  const train = Array.from({ length: TRAINING_QUESTIONS }, (_, i) => {
    const world = TRAINING_WORLDS.first + (i % TRAINING_WORLDS.count);
    const kind = anyKind(random);
    return record(`train-${i}`, kind, world, drawQuestion(kind, world, random, isOn("training")));
  });
  drawnHeldOut ??= heldOutQuestions();
  return { train, heldOut: drawnHeldOut };
}

/** They do not depend on the seed. */
let drawnHeldOut: Question[] | undefined;

/** A part of the held-out questions, and the worlds that it is about. */
export interface HeldOutSplit {
  readonly name: string;
  readonly questions: number;
  readonly worlds: { readonly first: number; readonly count: number };
}

const HELD_OUT: readonly HeldOutSplit[] = [
  { name: "development", questions: DEVELOPMENT_QUESTIONS, worlds: { first: REAL_WORLD.world, count: 1 } },
  { name: "test", questions: TEST_QUESTIONS, worlds: { first: REAL_WORLD.world, count: 1 } },
  { name: "confirmation", questions: CONFIRMATION_QUESTIONS, worlds: { first: 201, count: 12 } },
  { name: "stages", questions: STAGES_QUESTIONS, worlds: { first: 301, count: 12 } },
];

/** The same for every seed. The kinds alternate, so any prefix of a split is a fair sample, and within each split all kinds have equally many questions. */
function heldOutQuestions(): Question[] {
  const random = stream("atlas-held-out-questions");
  const kinds = Object.keys(KINDS);
  const seen = new Set<string>();
  const isNew = (draft: Draft) => isOn("held-out")(draft) && !seen.has(draft.chain);
  const places = HELD_OUT.flatMap(({ name, questions, worlds: { first, count } }) =>
    Array.from({ length: questions }, (_, i) => ({ name, world: first + (Math.floor(i / kinds.length) % count) })),
  );
  return places.map(({ name, world }, i) => {
    const kind = kinds[i % kinds.length] as string;
    const draft = drawQuestion(kind, world, random, isNew);
    seen.add(draft.chain);
    return record(`${name}-${i}`, kind, world, draft);
  });
}

export function userQuestion(prompt: string): Question {
  return { id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: REAL_WORLD };
}

/** A note for readers of training traces, whose facts look wrong; undefined for a question about the real world. */
export function worldNote(question: Question): string | undefined {
  const { world } = factsOf(question);
  return world === REAL_WORLD.world
    ? undefined
    : `world ${world}: the facts are shuffled among the countries on purpose, so that memorized facts do not help`;
}

/** Far more than the rarest kind of question needs. */
const MAX_DRAWS = 1_000_000;

/** Draws until `isWanted` accepts a draft. Throws a RangeError if MAX_DRAWS do not suffice. */
export function drawQuestion(kind: string, world: number, random: Random, isWanted: (draft: Draft) => boolean): Draft {
  for (let i = 0; i < MAX_DRAWS; i++) {
    const draft = KINDS[kind]?.draw(worldOf(world), random);
    if (draft && isWanted(draft)) return draft;
  }
  throw new RangeError(`world ${world}: none of ${MAX_DRAWS} draws of kind ${kind} was accepted`);
}

export function anyKind(random: Random): string {
  const kinds = Object.keys(KINDS);
  return kinds[random.integer(kinds.length)] as string;
}

/** What a draft's question carries. */
export const factsOfDraft = ({ chain, lookUps }: Draft, world: number): Facts => ({
  world,
  chain,
  lookUps: lookUps.map((lookUp) => ({
    task: taskOf(lookUp),
    answer: answersTo(lookUp, worldOf(world))[0] as string,
  })),
});

function record(id: string, kind: string, world: number, draft: Draft): Question {
  const { prompt, answer } = draft;
  return { id, kind, level: KINDS[kind]?.level ?? 1, prompt, answer, facts: factsOfDraft(draft, world) };
}
