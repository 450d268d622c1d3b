/** @file Laws of the question sets: the split, the answers, the text of tasks. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { questionsAsked } from "../../../core/contracts/evaluation-suite.ts";
import { type Question, QuestionSet } from "../../../core/contracts/question.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { demonstrationsOf } from "../../../recipes/atlas/demonstrations/demonstrations.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { KINDS } from "../../../recipes/atlas/questions/kinds.ts";
import {
  type Asked,
  answersTo,
  type Condition,
  type LookUp,
  parseTask,
  taskOf,
  termsOf,
} from "../../../recipes/atlas/questions/look-up.ts";
import {
  DEMONSTRATION_WORLDS,
  questionSet,
  userQuestion,
  worldNote,
} from "../../../recipes/atlas/questions/questions.ts";
import { isHeldOut, lookUpKey } from "../../../recipes/atlas/questions/split.ts";
import { recipe } from "../../../recipes/atlas/recipe.ts";
import { countries } from "../../../recipes/atlas/world/countries.ts";
import { worldOf } from "../../../recipes/atlas/world/world.ts";

const set = questionSet(1);
const factsOf = (question: { facts: unknown }) => Facts.parse(question.facts);
const { evaluation } = resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" });
const askedBy = (name: string): Question[] => {
  const suite = evaluation.suites.find((one) => one.name === name);
  if (!suite) throw new Error(name);
  return questionsAsked(suite, set.heldOut);
};
const development = askedBy("development");
const testSplit = askedBy("test");
const [confirmation, stages] = ["confirmation", "stages"].map((name) =>
  set.heldOut.filter(({ id }) => id.startsWith(`${name}-`)),
) as [Question[], Question[]];

const lookUpsOf = (question: Question): LookUp[] =>
  factsOf(question).lookUps.map(({ task }) => parseTask(task) as LookUp);
const heldOutLookUps = set.heldOut.flatMap(lookUpsOf);
const heldOutKeys = new Set(heldOutLookUps.map(lookUpKey));
const isInHeldOutQuestion = (lookUp: LookUp): boolean => heldOutKeys.has(lookUpKey(lookUp));

function sample(agent: string, seed: number, count = 500): Demonstration[] {
  const demonstrations: Demonstration[] = [];
  for (const demonstration of demonstrationsOf(agent, seed)) {
    if (demonstrations.push(demonstration) === count) break;
  }
  return demonstrations;
}

/** The values of an argument in all calls. */
const argumentsIn = ({ turns }: Demonstration, name: string): string[] =>
  turns.flatMap(({ text }) =>
    [...text.matchAll(new RegExp(`"${name}": ?"([^"]+)"`, "g"))].map((match) => match[1] ?? ""),
  );

/** The tasks that a demonstration delegates or is given. */
const tasksIn = (one: Demonstration): LookUp[] =>
  [one.prompt, ...argumentsIn(one, "task")].flatMap((text) => parseTask(text) ?? []);

const ASKS = "(capital|currency|area)";
const QUESTIONS = {
  country: /^Which country (.+)\?$/,
  factOfDescribed: new RegExp(`^What is the ${ASKS} of the country that (.+)\\?$`),
  fact: new RegExp(`^What is the ${ASKS} of (.+)\\?$`),
  threeHops: new RegExp(`^Of the neighbours of the country that (.+), one (.+): what is its ${ASKS}\\?$`),
};

/** `borders Iraq and uses the Jordanian dinar` as conditions. */
const conditionsIn = (text: string): Condition[] =>
  text.split(/ and (?=has the capital |borders |uses the |speaks )/).map((one) => {
    const [, verb = "", value = ""] = /^(has the capital|borders|uses the|speaks) (.+)$/.exec(one) ?? [];
    const fields = {
      "has the capital": "capital",
      borders: "borders",
      "uses the": "currency",
      speaks: "language",
    } as const;
    return { field: fields[verb as keyof typeof fields], value };
  });

/**
 * The look-ups that the single agent makes. It writes no tasks, so they are read from the question and, after the first look-up, from the names
 * that it searches for.
 */
function lookUpsOfSingle(demonstration: Demonstration): LookUp[] {
  const { prompt } = demonstration;
  const found = argumentsIn(demonstration, "query").map((query) => query.split(", ")[0] ?? "");
  const country = (...where: Condition[]): LookUp => ({ ask: "country", where });
  const fact = (ask: string | undefined, of: string | undefined): LookUp[] =>
    of === undefined ? [] : [{ ask: ask as Asked, of }];
  const [, conditions] = QUESTIONS.country.exec(prompt) ?? [];
  if (conditions !== undefined) return [country(...conditionsIn(conditions))];
  const [, asked, where = ""] = QUESTIONS.factOfDescribed.exec(prompt) ?? [];
  if (asked !== undefined) return [country(...conditionsIn(where)), ...fact(asked, found[1])];
  const [, ask, of] = QUESTIONS.fact.exec(prompt) ?? [];
  if (ask !== undefined) return fact(ask, of);
  const [, first, second = "", last] = QUESTIONS.threeHops.exec(prompt) ?? [];
  // A comparison is of the areas of the two countries that it searches for.
  if (first === undefined) return found.flatMap((name) => fact("area", name));
  const borders = found[1] === undefined ? [] : [{ field: "borders" as const, value: found[1] }];
  const neighbor = borders.map((condition) => country(condition, ...conditionsIn(second)));
  return [country(...conditionsIn(first)), ...neighbor, ...fact(last, found[2])];
}

test("questions are valid records of under 1,000 characters, with distinct ids", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  const all = [...set.train, ...set.heldOut];
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  for (const question of all) expect(JSON.stringify(question).length).toBeLessThan(1000);
});

test("the held-out splits have all kinds equally often, and all but development 336 questions; no kind is rare in training", () => {
  expect([...development, ...testSplit, ...confirmation, ...stages]).toEqual(set.heldOut);
  for (const split of [testSplit, confirmation, stages]) expect(split).toHaveLength(336);
  for (const split of [development, testSplit, confirmation, stages]) {
    for (const kind of Object.keys(KINDS)) {
      expect(split.filter((question) => question.kind === kind)).toHaveLength(split.length / 6);
    }
  }
  for (const kind of Object.keys(KINDS)) {
    expect(set.train.filter((question) => question.kind === kind).length).toBeGreaterThan(set.train.length / 10);
  }
});

test("no two held-out questions have the same chain, so the splits share none", () => {
  const chains = set.heldOut.map((question) => factsOf(question).chain);
  expect(new Set(chains).size).toBe(chains.length);
});

test("no look-up of a held-out question is in a training question, whatever the seed", () => {
  fc.assert(
    fc.property(fc.nat(), (seed) => {
      expect(questionSet(seed).train.flatMap(lookUpsOf).filter(isInHeldOutQuestion)).toEqual([]);
    }),
    { numRuns: 3 },
  );
  for (const lookUp of set.heldOut.flatMap(lookUpsOf)) expect(isHeldOut(lookUp)).toBe(true);
});

test("no look-up of a held-out question is in a demonstration of a team's agent, whatever the seed", () => {
  const agent = fc.constantFrom("main", "main-of-two", "searcher");
  fc.assert(
    fc.property(agent, fc.nat(), (name, seed) => {
      const tasks = sample(name, seed).flatMap(tasksIn);
      expect(tasks.length).toBeGreaterThan(100);
      expect(tasks.filter(isInHeldOutQuestion).map(taskOf)).toEqual([]);
    }),
    { numRuns: 6 },
  );
});

test("no look-up of the single agent's demonstrations is held out, not even one that follows a wrong finding", () => {
  const work = [1, 2, 3]
    .flatMap((seed) => sample("single", seed))
    .filter(({ prompt }) => !prompt.startsWith("Names: "));
  const lookUps = work.flatMap((one) => {
    const made = lookUpsOfSingle(one);
    // Search i is only for names of look-up i.
    const terms = argumentsIn(one, "query").map((query) => query.split(", "));
    expect(terms.length, one.prompt).toBeLessThanOrEqual(made.length);
    for (const [i, names] of terms.entries()) expect(termsOf(made[i] as LookUp)).toEqual(expect.arrayContaining(names));
    return made;
  });
  expect(lookUps.length).toBeGreaterThan(1500);
  expect(lookUps.filter(isHeldOut).map(taskOf)).toEqual([]);
});

test("development and test are about the real world, training, confirmation and stages about twelve permuted worlds each, none of them a demonstration's", () => {
  const worldsOf = (questions: readonly Question[]) => [...new Set(questions.map((one) => factsOf(one).world))];
  expect(worldsOf([...development, ...testSplit])).toEqual([0]);
  const { first, count } = DEMONSTRATION_WORLDS;
  const demonstrated = Array.from({ length: count }, (_, i) => first + i);
  const permuted = [set.train, confirmation, stages].map(worldsOf);
  expect(permuted.map(({ length }) => length)).toEqual([12, 12, 12]);
  expect(new Set([0, ...permuted.flat(), ...demonstrated]).size).toBe(1 + 3 * 12 + count);
});

test("questions about permuted worlds have a note that says so; those about the real one have none", () => {
  for (const question of [...set.train, ...confirmation, ...stages])
    expect(worldNote(question)).toMatch(/^world \d+: the facts are shuffled .* on purpose/);
  for (const question of [...development, ...testSplit, userQuestion("Where?")])
    expect(worldNote(question)).toBeUndefined();
});

test("the seed determines the training questions, but not the held-out ones", () => {
  expect(questionSet(1)).toEqual(set);
  const other = questionSet(2);
  expect(other.heldOut).toEqual(set.heldOut);
  expect(other.train).not.toEqual(set.train);
});

test("every look-up of a chain has one answer, and the last one's is the question's, except in a comparison", () => {
  for (const question of [...set.heldOut, ...set.train]) {
    const { lookUps, world } = factsOf(question);
    for (const { task, answer } of lookUps) {
      const lookUp = parseTask(task);
      expect(lookUp && answersTo(lookUp, worldOf(world))).toEqual([answer]);
    }
    if (question.kind !== "compare") expect(lookUps.at(-1)?.answer).toBe(question.answer);
    const counts = { hop1: 1, hop2: 2, constraints: 1, compare: 2, "hop-constraints": 2, hop3: 3 };
    expect(lookUps).toHaveLength(counts[question.kind as keyof typeof counts]);
  }
});

test("no answer is correct for more than a tenth of a kind's held-out questions", () => {
  for (const kind of Object.keys(KINDS)) {
    const answers = set.heldOut.filter((question) => question.kind === kind).map(({ answer }) => answer);
    const most = Math.max(...answers.map((answer) => answers.filter((other) => other === answer).length));
    expect(most / answers.length, kind).toBeLessThanOrEqual(0.1);
  }
});

test("a look-up written as a task parses to the same look-up; other text does not parse", () => {
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
