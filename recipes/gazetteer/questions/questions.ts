/**
 * @file The question sets. What is asked comes from atlas, chains of look-ups split by the hash of the chain; how it is asked comes from
 * phrasings.ts, with a split of its own. Held-out questions are about the real world, in held-out phrasings, and no two have the same chain:
 * the first ones are the development split, on which choices are made, and the others the test split, which is reported.
 */
import type { Question, QuestionSet } from "../../../core/contracts/question.ts";
import { type Random, stream } from "../../../core/random.ts";
import { KINDS as ATLAS_KINDS, type Draft } from "../../atlas/questions/kinds.ts";
import { taskOf } from "../../atlas/questions/look-up.ts";
import { drawQuestion, factsOfDraft } from "../../atlas/questions/questions.ts";
import { comparison, described, factQuestion, questionFor, type Side } from "./phrasings.ts";

/** The kinds of atlas with at most two look-ups: one hop; then chains, several constraints, and arithmetic on two findings. */
export const KINDS = ["hop1", "hop2", "constraints", "compare"] as const;

const TRAINING_WORLDS = { first: 1, count: 12 };
const TRAINING_QUESTIONS = 3000;
export const DEVELOPMENT_QUESTIONS = 64;
export const TEST_QUESTIONS = 336;
const HELD_OUT_SHARE = 0.2;

export function questionSet(seed: number): QuestionSet {
  const random = stream(seed, "gazetteer-training-questions");
  const train = Array.from({ length: TRAINING_QUESTIONS }, (_, i) => {
    const world = TRAINING_WORLDS.first + (i % TRAINING_WORLDS.count);
    const kind = KINDS[i % KINDS.length] as string;
    return record(`train-${i}`, kind, world, drawQuestion(kind, world, random, isOn("training")), "training", random);
  });
  return { train, heldOut: heldOutQuestions() };
}

/** The same for every seed. The kinds alternate, so both splits have equally many of each. */
function heldOutQuestions(): Question[] {
  const random = stream("gazetteer-held-out-questions");
  const seen = new Set<string>();
  return Array.from({ length: DEVELOPMENT_QUESTIONS + TEST_QUESTIONS }, (_, i) => {
    const kind = KINDS[i % KINDS.length] as string;
    const draft = drawQuestion(kind, 0, random, (one) => isOn("heldOut")(one) && !seen.has(one.chain));
    seen.add(draft.chain);
    const split = i < DEVELOPMENT_QUESTIONS ? "development" : "test";
    return record(`${split}-${i}`, kind, 0, draft, "heldOut", random);
  });
}

/** Whether a draft's chain of facts is on a side of the split, in every world and for every seed. */
export const isOn =
  (side: Side) =>
  ({ chain }: Draft): boolean =>
    stream("atlas-split", chain).uniform() < HELD_OUT_SHARE === (side === "heldOut");

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
  const level = ATLAS_KINDS[kind]?.level ?? 1;
  const prompt = wordingFor(draft, side, random);
  return { id, kind, level, prompt, answer: draft.answer, facts: factsOfDraft(draft, world) };
}
