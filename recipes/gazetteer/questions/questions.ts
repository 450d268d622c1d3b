/**
 * @file The question sets. What is asked comes from atlas and is split as there, by look-up; how it is asked comes from phrasings.ts, with a
 * split of its own. Held-out questions consist only of held-out look-ups, in held-out phrasings. The held-out questions have three splits, in
 * this order: `development` guides choices and is about a world of its own; `test` is reported, is about the real world, and nearly uses up its
 * held-out chains of kind `hop2`; `confirmation`, about worlds that no other split uses, is for one comparison (README.md).
 */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { type Random, stream } from "../../../core/random.ts";
import { factsOf, REAL_WORLD } from "../../atlas/questions/facts.ts";
import { type Draft, KINDS } from "../../atlas/questions/kinds.ts";
import { taskOf } from "../../atlas/questions/look-up.ts";
import { drawQuestion, factsOfDraft, type HeldOutSplit } from "../../atlas/questions/questions.ts";
import { isOn, type Side } from "../../atlas/questions/split.ts";
import { comparison, described, factQuestion, questionFor } from "./phrasings.ts";

/** Atlas's kinds of levels 1 and 2: one hop; then two hops, two constraints, and arithmetic on two areas. */
export const ASKED_KINDS = ["hop1", "hop2", "constraints", "compare"] as const;

const TRAINING_WORLDS = { first: 1, count: 12 };
const TRAINING_QUESTIONS = 3000;
export const DEVELOPMENT_QUESTIONS = 64;
export const TEST_QUESTIONS = 320;

export function questionSet(seed: number): QuestionSet {
  const random = stream(seed, "gazetteer-training-questions");
  const train = Array.from({ length: TRAINING_QUESTIONS }, (_, i) => {
    const kind = ASKED_KINDS[i % ASKED_KINDS.length] as string;
    const world = TRAINING_WORLDS.first + (Math.floor(i / ASKED_KINDS.length) % TRAINING_WORLDS.count);
    return record(`train-${i}`, kind, world, drawQuestion(kind, world, random, isOn("training")), "training", random);
  });
  return { train, heldOut: heldOutQuestions() };
}

const DEVELOPMENT: HeldOutSplit = {
  name: "development",
  questions: DEVELOPMENT_QUESTIONS,
  worlds: { first: 100, count: 1 },
};
const TEST: HeldOutSplit = { name: "test", questions: TEST_QUESTIONS, worlds: { first: REAL_WORLD.world, count: 1 } };
const CONFIRMATION: HeldOutSplit = { name: "confirmation", questions: 320, worlds: { first: 201, count: 12 } };

/** The same for every seed. */
function heldOutQuestions(): Question[] {
  const random = stream("gazetteer-held-out-questions");
  const shown = [...heldOutSplit(DEVELOPMENT, random, []), ...heldOutSplit(TEST, random, [])];
  return [...shown, ...heldOutSplit(CONFIRMATION, random, shown)];
}

/** The kinds alternate. No question has the chain of look-ups of another one of the split, or of one of `others`. */
function heldOutSplit(
  { name, questions, worlds }: HeldOutSplit,
  random: Random,
  others: readonly Question[],
): Question[] {
  const seen = new Set(others.map((question) => factsOf(question).chain));
  const isNew = (draft: Draft) => isOn("held-out")(draft) && !seen.has(draft.chain);
  return Array.from({ length: questions }, (_, i) => {
    const kind = ASKED_KINDS[i % ASKED_KINDS.length] as string;
    const world = worlds.first + (Math.floor(i / ASKED_KINDS.length) % worlds.count);
    const draft = drawQuestion(kind, world, random, isNew);
    seen.add(draft.chain);
    return record(`${name}-${i}`, kind, world, draft, "held-out", random);
  });
}

/** What a draft asks, in English. */
export function wordingFor({ lookUps, operator }: Draft, side: Side, random: Random): string {
  const [first, second] = lookUps;
  if (first === undefined) throw new RangeError("a draft without a look-up");
  if (second === undefined) return questionFor(first, side, random);
  if (first.ask === "country" && second.ask !== "country") {
    return factQuestion(second.ask, described(first.where, side, random), side, random);
  }
  if (operator === undefined || first.ask === "country" || second.ask === "country") {
    throw new RangeError(`no wording for ${lookUps.map(taskOf).join("; ")}`);
  }
  return comparison(operator, [first.of, second.of], side, random);
}

function record(id: string, kind: string, world: number, draft: Draft, side: Side, random: Random): Question {
  const level = KINDS[kind]?.level ?? 1;
  const prompt = wordingFor(draft, side, random);
  return { id, kind, level, prompt, answer: draft.answer, facts: factsOfDraft(draft, world) };
}
