/** @file Laws of the question sets: the split, the answers, the text of tasks. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { QuestionSet } from "../../../core/contracts/question.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { KINDS } from "../../../recipes/atlas/questions/kinds.ts";
import { answersTo, type LookUp, parseTask, taskOf } from "../../../recipes/atlas/questions/look-up.ts";
import { asked, isHeldOut, questionSet, worldNote } from "../../../recipes/atlas/questions/questions.ts";
import { countries } from "../../../recipes/atlas/world/countries.ts";
import { worldOf } from "../../../recipes/atlas/world/world.ts";

const set = questionSet(1);
const factsOf = (question: { facts: unknown }) => Facts.parse(question.facts);

test("questions are valid records, small, with distinct ids", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  const all = [...set.train, ...set.heldOut];
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  for (const question of all) expect(JSON.stringify(question).length).toBeLessThan(1000);
});

test("at least 300 questions are held out, all different, every kind alike", () => {
  expect(set.heldOut.length).toBeGreaterThanOrEqual(300);
  expect(new Set(set.heldOut.map(({ prompt }) => prompt)).size).toBe(set.heldOut.length);
  for (const kind of Object.keys(KINDS)) {
    expect(set.heldOut.filter((question) => question.kind === kind)).toHaveLength(set.heldOut.length / 6);
    expect(set.train.filter((question) => question.kind === kind).length).toBeGreaterThan(set.train.length / 10);
  }
});

test("training and held-out questions share no chain of facts, whatever the seed", () => {
  const heldOut = new Set(set.heldOut.map((question) => factsOf(question).chain));
  for (const seed of [1, 2, 3]) {
    for (const question of questionSet(seed).train) expect(heldOut.has(factsOf(question).chain)).toBe(false);
  }
  for (const chain of heldOut) expect(isHeldOut(chain)).toBe(true);
});

test("training is about permuted worlds, evaluation about the real one", () => {
  for (const question of set.train) expect(factsOf(question).world).toBeGreaterThan(0);
  for (const question of set.heldOut) expect(factsOf(question).world).toBe(0);
  expect(new Set(set.train.map((question) => factsOf(question).world)).size).toBe(12);
});

test("questions about permuted worlds say so, those about the real one do not", () => {
  const { train, heldOut } = questionSet(1);
  for (const question of train) expect(worldNote(question)).toMatch(/^world \d+: the facts are shuffled .* on purpose/);
  for (const question of [...heldOut, asked("Where?")]) expect(worldNote(question)).toBeUndefined();
});

test("the seed decides the training questions, and not the held-out ones", () => {
  expect(questionSet(1)).toEqual(set);
  const other = questionSet(2);
  expect(other.heldOut).toEqual(set.heldOut);
  expect(other.train).not.toEqual(set.train);
});

test("every look-up of a chain has one answer, and the last gives the question's", () => {
  for (const question of [...set.heldOut, ...set.train]) {
    const { lookUps, world } = factsOf(question);
    for (const { task, answer } of lookUps) {
      const lookUp = parseTask(task);
      expect(lookUp && answersTo(lookUp, worldOf(world))).toEqual([answer]);
    }
    if (question.kind !== "compare") expect(lookUps.at(-1)?.answer).toBe(question.answer);
    const levels = { hop1: 1, hop2: 2, constraints: 1, compare: 2, "hop-constraints": 2, hop3: 3 };
    expect(lookUps).toHaveLength(levels[question.kind as keyof typeof levels]);
  }
});

test("no answer can be guessed: none is correct for more than a tenth of a kind's questions", () => {
  for (const kind of Object.keys(KINDS)) {
    const answers = set.heldOut.filter((question) => question.kind === kind).map(({ answer }) => answer);
    const most = Math.max(...answers.map((answer) => answers.filter((other) => other === answer).length));
    expect(most / answers.length, kind).toBeLessThanOrEqual(0.1);
  }
});

test("a task's text is its look-up", () => {
  const name = fc.constantFrom(...countries.flatMap(({ name, capital, currency }) => [name, capital, currency]));
  const condition = fc.record({
    field: fc.constantFrom("capital" as const, "borders" as const, "currency" as const, "language" as const),
    value: name,
  });
  const lookUp: fc.Arbitrary<LookUp> = fc.oneof(
    fc.record({ ask: fc.constantFrom("capital" as const, "currency" as const, "area" as const), of: name }),
    fc.record({ ask: fc.constant("country" as const), where: fc.array(condition, { minLength: 1, maxLength: 3 }) }),
  );
  fc.assert(
    fc.property(lookUp, (wanted) => {
      expect(parseTask(taskOf(wanted))).toEqual(wanted);
    }),
  );
  for (const text of ["", "Jordan", "capital of", "country with", "country with color red", "find Jordan"]) {
    expect(parseTask(text)).toBeUndefined();
  }
});
