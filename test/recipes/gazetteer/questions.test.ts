/** @file Laws of the question sets: training and held-out questions share no look-up and no phrasing, and the real tools suffice to answer them. */
import { expect, test } from "vitest";
import { questionsAsked } from "../../../core/contracts/evaluation-suite.ts";
import { type Question, QuestionSet } from "../../../core/contracts/question.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";
import { stream } from "../../../core/random.ts";
import { resolveConfig } from "../../../core/training/resolve-config.ts";
import { Facts } from "../../../recipes/atlas/questions/facts.ts";
import { type LookUp, parseTask, termsOf } from "../../../recipes/atlas/questions/look-up.ts";
import { DEMONSTRATION_WORLDS } from "../../../recipes/atlas/questions/questions.ts";
import { isHeldOut } from "../../../recipes/atlas/questions/split.ts";
import { countries } from "../../../recipes/atlas/world/countries.ts";
import { worldOf } from "../../../recipes/atlas/world/world.ts";
import {
  COMPARISONS,
  CONDITIONS,
  COUNTRY,
  DESCRIBED,
  FACTS,
  ofBothSides,
  type Phrasings,
  questionFor,
  taskFor,
} from "../../../recipes/gazetteer/questions/phrasings.ts";
import { ASKED_KINDS, questionSet } from "../../../recipes/gazetteer/questions/questions.ts";
import { readTask } from "../../../recipes/gazetteer/questions/read-task.ts";
import { recipe } from "../../../recipes/gazetteer/recipe.ts";
import { tools } from "../../../recipes/gazetteer/tools.ts";
import { pagesOf } from "../../../recipes/gazetteer/world/pages.ts";
import { readPage } from "../../../recipes/gazetteer/world/read-page.ts";
import { address } from "../../fakes/conversations.ts";
import { phrasingPattern } from "./phrasings.ts";

const set = questionSet(1);
const { evaluation } = resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" });
const asked = (name: string): Question[] => {
  const suite = evaluation.suites.find((one) => one.name === name);
  if (!suite) throw new Error(name);
  return questionsAsked(suite, set.heldOut);
};
const development = asked("development");
const testSplit = asked("test");
const confirmation = set.heldOut.slice(development.length + testSplit.length);
const chainsOf = (questions: readonly Question[]) => questions.map(({ facts }) => Facts.parse(facts).chain);

test("questions are valid records with distinct ids; the seed determines the training questions, but not the held-out ones", () => {
  expect(QuestionSet.parse(set)).toEqual(set);
  expect(new Set([...set.train, ...set.heldOut].map(({ id }) => id)).size).toBe(set.train.length + set.heldOut.length);
  expect(questionSet(1)).toEqual(set);
  expect(questionSet(2).heldOut).toEqual(set.heldOut);
  expect(questionSet(2).train).not.toEqual(set.train);
});

test("the held-out splits have all kinds equally often, at most 64 questions in development, and 320 in test and in confirmation", () => {
  expect(development.length).toBeLessThanOrEqual(64);
  for (const split of [testSplit, confirmation]) expect(split).toHaveLength(320);
  expect([...development, ...testSplit, ...confirmation]).toEqual(set.heldOut);
  for (const split of [development, testSplit, confirmation]) {
    for (const kind of ASKED_KINDS) {
      expect(split.filter((question) => question.kind === kind)).toHaveLength(split.length / ASKED_KINDS.length);
    }
  }
});

test("closed-book asks the questions of test at the same temperature, while tools return nothing; no other suite is closed-book", () => {
  expect(asked("closed-book")).toEqual(testSplit);
  const suiteOf = (name: string) => evaluation.suites.find((one) => one.name === name);
  expect(suiteOf("closed-book")).toEqual({ ...suiteOf("test"), name: "closed-book", closedBook: true });
  expect(evaluation.suites.filter(({ closedBook }) => closedBook).map(({ name }) => name)).toEqual(["closed-book"]);
});

test("training asks every kind about each of its twelve worlds", () => {
  const asked = new Set(set.train.map(({ kind, facts }) => `${Facts.parse(facts).world} ${kind}`));
  expect(asked.size).toBe(12 * ASKED_KINDS.length);
});

test("no two held-out questions of a split have the same chain, and none of confirmation has one of another split", () => {
  for (const split of [development, testSplit]) expect(new Set(chainsOf(split)).size).toBe(split.length);
  const shown = new Set(chainsOf([...development, ...testSplit]));
  expect(new Set([...shown, ...chainsOf(confirmation)]).size).toBe(shown.size + confirmation.length);
});

test("confirmation is about twelve worlds that no other split, and no demonstration, is about", () => {
  const worldsOf = (questions: readonly Question[]) => new Set(questions.map(({ facts }) => Facts.parse(facts).world));
  const { first, count } = DEMONSTRATION_WORLDS;
  const others = worldsOf([...set.train, ...development, ...testSplit]);
  for (const world of Array.from({ length: count }, (_, i) => first + i)) others.add(world);
  const confirming = worldsOf(confirmation);
  expect(confirming.size).toBe(12);
  expect([...confirming].filter((world) => others.has(world))).toEqual([]);
});

test("held-out questions need only held-out look-ups, and training questions of three seeds none of them", () => {
  const lookUpsOf = ({ facts }: Question) => Facts.parse(facts).lookUps.map(({ task }) => parseTask(task) as LookUp);
  expect(set.heldOut.flatMap(lookUpsOf).every(isHeldOut)).toBe(true);
  for (const seed of [1, 2, 3]) expect(questionSet(seed).train.flatMap(lookUpsOf).filter(isHeldOut)).toEqual([]);
});

test("training and held-out questions share no phrasing", () => {
  const parts: Phrasings[] = [COUNTRY, DESCRIBED, ...[CONDITIONS, FACTS, COMPARISONS].flatMap(Object.values)];
  const texts = (side: "training" | "held-out") => parts.flatMap((part) => part[side].map(phrasingPattern));
  const uses = (questions: readonly Question[], side: "training" | "held-out") =>
    questions.filter(({ prompt }) => texts(side).some((text) => text.test(prompt)));
  expect(uses(set.heldOut, "training").map(({ prompt }) => prompt)).toEqual([]);
  expect(uses(set.heldOut, "held-out")).toHaveLength(set.heldOut.length);
  expect(uses(set.train, "held-out").map(({ prompt }) => prompt)).toEqual([]);
  expect(uses(set.train, "training")).toHaveLength(set.train.length);
});

test("no answer is correct for more than a tenth of a kind's held-out questions", () => {
  for (const kind of ASKED_KINDS) {
    const answers = set.heldOut.filter((question) => question.kind === kind).map(({ answer }) => answer);
    const most = Math.max(...answers.map((answer) => answers.filter((other) => other === answer).length));
    expect(most / answers.length, kind).toBeLessThanOrEqual(0.1);
  }
});

test("parsing a page returns the facts that it was written from; a page that is cut off or any other text does not parse", () => {
  for (const world of [0, 1]) {
    const pages = pagesOf(worldOf(world));
    for (const country of worldOf(world).countries.values()) {
      const facts = readPage(pages.get(country.name) ?? "")?.facts;
      const { capital, currency, languages, borders, area } = country;
      expect([facts?.get("capital"), facts?.get("currency")]).toEqual([[capital], [currency]]);
      expect([facts?.get("language"), facts?.get("borders")]).toEqual([languages, borders]);
      expect(facts?.get("area")).toEqual([area === 0 ? "under 1" : String(area)]);
      expect(readPage(pages.get(capital) ?? "")?.facts.get("country")).toEqual([country.name]);
    }
  }
  expect(readPage("no such page")).toBeUndefined();
  expect(readPage(pagesOf(worldOf(0)).get("Jordan")?.slice(0, -9) ?? "")).toBeUndefined();
});

/** A planner that follows the question's look-ups and a searcher that reads only its task: all values come from what tools return. */
async function answer(question: Question): Promise<string> {
  const call = (name: string, args: Record<string, string>): Promise<string> =>
    (tools.get(name) as NonNullable<ReturnType<typeof tools.get>>).run(args as never, {
      question,
      address,
      budget: openToolBudget(undefined),
      responseCharacters: 500,
      signal: new AbortController().signal,
    });
  const random = stream("scripted", question.id);
  const found: string[] = [];
  for (const { task } of Facts.parse(question.facts).lookUps) {
    found.push(await searcher(taskFor(parseTask(task) as LookUp, random), call));
  }
  if (question.kind !== "compare") return found.at(-1) ?? "";
  const isMinus = ofBothSides(COMPARISONS["-"]).some((text) => phrasingPattern(text).test(question.prompt));
  return call("calculate", { expression: found.join(isMinus ? " - " : " + ") });
}

/** Opens the titles found, in order; reports the fact, or the country for which the page shows every condition. */
async function searcher(task: string, call: (name: string, args: Record<string, string>) => Promise<string>) {
  const read = readTask(task);
  if (!read) throw new Error(task);
  const { ask, of, where } = read;
  const lookUp: LookUp = ask === "country" ? { ask, where } : { ask, of: of ?? "" };
  for (const title of (await call("search", { query: termsOf(lookUp).join(", ") })).split("\n")) {
    const page = readPage(await call("visit", { title }));
    if (ask !== "country") {
      if (title === of) return page?.facts.get(ask)?.[0] ?? "";
      continue;
    }
    const [first] = where;
    if (where.length === 1 && first?.field === "capital" && title === first.value) {
      return page?.facts.get("country")?.[0] ?? "";
    }
    if (where.every(({ field, value }) => page?.facts.get(field)?.includes(value))) return title;
  }
  return "not found";
}

test("a scripted team answers every held-out question, and 400 training questions of all worlds", async () => {
  const wrong: string[] = [];
  for (const question of [...set.heldOut, ...set.train.slice(0, 400)]) {
    const given = await answer(question);
    if (given !== question.answer) wrong.push(`${question.prompt} ${given} instead of ${question.answer}`);
  }
  expect(wrong).toEqual([]);
});

test("a look-up parses from its question in a training and in a held-out phrasing, and from its task, for every country", () => {
  const random = stream("read-task");
  for (const { name, capital, currency, borders, languages } of countries) {
    const where = [
      { field: "capital" as const, value: capital },
      { field: "currency" as const, value: currency },
      ...borders.map((value) => ({ field: "borders" as const, value })),
      ...languages.map((value) => ({ field: "language" as const, value })),
    ];
    const lookUps: LookUp[] = [
      { ask: "area", of: name },
      { ask: "capital", of: name },
      { ask: "currency", of: name },
      ...where.map((condition) => ({ ask: "country" as const, where: [condition] })),
      { ask: "country", where: random.choose(where.length, 2).map((i) => where[i] as (typeof where)[number]) },
    ];
    for (const lookUp of lookUps) {
      const wanted = lookUp.ask === "country" ? lookUp : { ...lookUp, where: [] };
      for (const side of ["training", "held-out"] as const) {
        const text = questionFor(lookUp, side, random);
        expect(readTask(text), text).toEqual(wanted);
      }
      expect(readTask(taskFor(lookUp, random))).toEqual(wanted);
    }
  }
});

test.each([
  ["the area of Chad", { ask: "area", of: "Chad", where: [] }],
  ["How large is Chad?", { ask: "area", of: "Chad", where: [] }],
  [
    "country bordering Iraq, whose currency is the lira",
    {
      ask: "country",
      where: [
        { field: "borders", value: "Iraq" },
        { field: "currency", value: "lira" },
      ],
    },
  ],
  ["Which country has the capital of Amman?", { ask: "country", where: [{ field: "capital", value: "Amman" }] }],
  [
    "Find the capital of the country that borders Iraq.",
    { ask: "capital", where: [{ field: "borders", value: "Iraq" }] },
  ],
  ["What currency is used in Chad?", { ask: "currency", of: "Chad", where: [] }],
  ["Jordan", undefined],
  ["tell me about Jordan", undefined],
  ["What is the currency?", undefined],
  ["", undefined],
])("the task %j parses to %j", (text, task) => expect(readTask(text)).toEqual(task));
