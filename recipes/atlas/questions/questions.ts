/**
 * @file The question sets. A chain of facts is held out by its hash, in every world and for every seed: no training question
 * and no demonstration has a held-out chain. Training asks about permuted worlds, evaluation about the real one.
 */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { type Random, stream } from "../../../core/random.ts";
import { worldOf } from "../world/world.ts";
import { type Facts, factsOf, REAL_WORLD } from "./facts.ts";
import { type Draft, KINDS } from "./kinds.ts";
import { answersTo, taskOf } from "./look-up.ts";

const TRAINING_WORLDS = { first: 1, count: 12 };
/** Demonstrations use separate worlds. */
export const DEMONSTRATION_WORLDS = { first: 101, count: 12 };
const TRAINING_QUESTIONS = 3000;
const HELD_OUT_PER_KIND = 56;
const HELD_OUT_SHARE = 0.2;

export function questionSet(seed: number): QuestionSet {
  const random = stream(seed, "atlas-training-questions");
  const train = Array.from({ length: TRAINING_QUESTIONS }, (_, i) => {
    const world = TRAINING_WORLDS.first + (i % TRAINING_WORLDS.count);
    const kind = anyKind(random);
    return record(`train-${i}`, kind, world, drawQuestion(kind, world, random, false));
  });
  return { train, heldOut: heldOutQuestions() };
}

/** The same for every seed, with all kinds mixed: any prefix is a fair sample. */
function heldOutQuestions(): Question[] {
  const random = stream("atlas-held-out-questions");
  const seen = new Set<string>();
  const questions: Question[] = [];
  for (let i = 0; i < HELD_OUT_PER_KIND; i++) {
    for (const kind of Object.keys(KINDS)) {
      let draft = drawQuestion(kind, 0, random, true);
      while (seen.has(draft.prompt)) draft = drawQuestion(kind, 0, random, true);
      seen.add(draft.prompt);
      questions.push(record(`heldout-${questions.length}`, kind, 0, draft));
    }
  }
  return questions;
}

export function asked(prompt: string): Question {
  return { id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: REAL_WORLD };
}

/** Training traces look wrong to a reader who takes the facts for real ones. */
export function worldNote(question: Question): string | undefined {
  const { world } = factsOf(question);
  return world === REAL_WORLD.world
    ? undefined
    : `world ${world}: the facts are shuffled among the countries on purpose, so that they cannot be known by heart`;
}

/** Draws until the world has such a question on the requested side of the split. */
export function drawQuestion(kind: string, world: number, random: Random, heldOut: boolean): Draft {
  for (;;) {
    const draft = KINDS[kind]?.draw(worldOf(world), random);
    if (draft && isHeldOut(draft.chain) === heldOut) return draft;
  }
}

export function anyKind(random: Random): string {
  const kinds = Object.keys(KINDS);
  return kinds[random.integer(kinds.length)] as string;
}

export const isHeldOut = (chain: string): boolean => stream("atlas-split", chain).uniform() < HELD_OUT_SHARE;

/** What scoring and tools need to know of a draft's question. */
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
