/**
 * @file A scripted adversary: 10,000 generated cases of a searcher that does its work wrong and is to be paid for it. What is correct comes from the
 * world itself, not from the pages that the judge reads. The bounds are those that recipes/atlas/rewards.ts states.
 */
import { expect, test } from "vitest";
import type { Conversation } from "../../../core/contracts/conversation.ts";
import type { Question } from "../../../core/contracts/question.ts";
import { type Random, stream } from "../../../core/random.ts";
import {
  ASKED,
  answersTo,
  type Condition,
  factOf,
  type LookUp,
  taskOf,
  termsOf,
} from "../../../recipes/atlas/questions/look-up.ts";
import { anyKind, drawQuestion, factsOfDraft } from "../../../recipes/atlas/questions/questions.ts";
import { isOn } from "../../../recipes/atlas/questions/split.ts";
import { rewards } from "../../../recipes/atlas/rewards.ts";
import { visited } from "../../../recipes/atlas/tools.ts";
import type { Country } from "../../../recipes/atlas/world/countries.ts";
import { type World, worldOf } from "../../../recipes/atlas/world/world.ts";

const CASES = 10_000;
const WORLDS = 6;
/** The shares of the search and of the page; the rest is the report's. */
const [SEARCH, PAGE] = [0.2, 0.3];

/** One task in one world, and what the adversary knows: everything. */
interface Case {
  readonly world: World;
  readonly question: Question;
  readonly lookUp: LookUp;
  readonly correct: readonly string[];
  readonly countries: readonly Country[];
  readonly random: Random;
}

interface Behavior {
  readonly task?: string;
  readonly searches?: readonly string[];
  readonly visits?: readonly string[];
  readonly report: string | null;
}

/** Undefined: the case offers no such attack. `most`: the most that it may be paid. */
type Attack = (given: Case) => { readonly behavior: Behavior; readonly most: number } | undefined;

function paid({ world, question, lookUp }: Case, { task, searches = [], visits = [], report }: Behavior): number {
  const call = (name: string, key: string, text: string, response: string) => ({
    text: "",
    calls: [{ name, arguments: { [key]: text } }],
    responses: [{ name, text: response }],
  });
  const conversation: Conversation = {
    prompt: task ?? taskOf(lookUp),
    turns: [
      ...searches.map((query) => call("search", "query", query, "")),
      ...visits.map((title) => call("visit", "title", title, visited(world.number, title))),
    ],
    stop: report === null ? "turn-limit" : "answered",
    answer: report,
    fault: null,
  };
  return rewards.expert(question, "searcher", conversation) as number;
}

const oneOf = <T>(list: readonly T[], random: Random): T | undefined => list[random.integer(list.length)];
const rightQuery = (lookUp: LookUp) => termsOf(lookUp).join(", ");
const isWrong = ({ correct }: Case, report: string) =>
  !correct.some((one) => one.toLowerCase() === report.toLowerCase());

function holds(country: Country, { field, value }: Condition): boolean {
  if (field === "borders") return country.borders.includes(value);
  return field === "language" ? country.languages.includes(value) : country[field] === value;
}

/** A country for which some of the conditions hold and not all, with its own, true page. The fewer hold, the less the page is worth. */
const wrongCountry: Attack = (given) => {
  const { lookUp, countries, random } = given;
  if (lookUp.ask !== "country") return undefined;
  const { where } = lookUp;
  const some = countries.filter((one) => isWrong(given, one.name) && where.some((condition) => holds(one, condition)));
  const country = oneOf(some, random);
  if (!country) return undefined;
  // The pages that bear out what holds: its own, or those of the neighbors and the capital that the task names.
  const visits = [country.name, ...where.map(({ value }) => value)].slice(0, 1 + random.integer(where.length + 1));
  const most = SEARCH + PAGE * (1 - 1 / where.length);
  return { behavior: { searches: [rightQuery(lookUp)], visits, report: country.name }, most };
};

/** Any country, with the page of a correct one. */
const wrongCountryOfRightPage: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const report = oneOf(countries, random)?.name ?? "";
  if (lookUp.ask !== "country" || !isWrong(given, report)) return undefined;
  return { behavior: { searches: [rightQuery(lookUp)], visits: correct, report }, most: SEARCH + PAGE };
};

/** The right page, and a value of another of its fields, or a correct value of another country. */
const wrongField: Attack = (given) => {
  const { lookUp, countries, world, random } = given;
  if (lookUp.ask === "country") return undefined;
  const { name, region, languages, borders } = world.countries.get(lookUp.of) ?? expect.fail();
  const other = oneOf(countries, random) ?? expect.fail();
  const own = ASKED.map((asked) => factOf(world.countries.get(lookUp.of) ?? expect.fail(), asked));
  const values = [...own, name, region, languages.join(", "), borders[0] ?? "none", factOf(other, lookUp.ask)];
  const report =
    oneOf(
      values.filter((value) => isWrong(given, value)),
      random,
    ) ?? "";
  return { behavior: { searches: [rightQuery(lookUp)], visits: [lookUp.of], report }, most: SEARCH + PAGE };
};

/** The page of another country, and its value. */
const wrongPage: Attack = (given) => {
  const { lookUp, countries, random } = given;
  const other = oneOf(countries, random) ?? expect.fail();
  if (lookUp.ask === "country" || other.name === lookUp.of) return undefined;
  const visits = [other.name, other.capital];
  return { behavior: { searches: [rightQuery(lookUp)], visits, report: factOf(other, lookUp.ask) }, most: SEARCH };
};

/** A correct report, known by heart: with no search, or a search whose result nobody opened. */
const withoutLooking: Attack = ({ lookUp, correct, random }) => {
  const searches = random.uniform() < 0.5 ? [] : [rightQuery(lookUp)];
  return { behavior: { searches, report: correct[0] ?? "" }, most: SEARCH * searches.length };
};

/** A correct report, and only pages that have nothing to do with it. */
const otherPagesOpened: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  if (lookUp.ask === "country") return undefined;
  const visits = countries
    .filter(({ name }) => name !== lookUp.of)
    .slice(0, 1 + random.integer(40))
    .map(({ name }) => name);
  return { behavior: { visits, report: correct[0] ?? "" }, most: 0 };
};

/** Many values, the correct one among them. */
const stuffedReport: Attack = (given) => {
  const { lookUp, correct, countries, random } = given;
  const right = correct[0] ?? "";
  const others = [1, 2, 3].map(() => oneOf(countries, random) ?? expect.fail());
  const values = [right, ...others.map((one) => (lookUp.ask === "country" ? one.name : factOf(one, lookUp.ask)))];
  const joined = values.join(oneOf([", ", " or ", " ", "\n", "/"], random));
  if (!isWrong(given, joined)) return undefined;
  const visits = lookUp.ask === "country" ? correct : [lookUp.of];
  return { behavior: { searches: [rightQuery(lookUp)], visits, report: joined }, most: SEARCH + PAGE };
};

/** One query that names everything, and no page. With n other terms, it is worth the task's terms as a share of all. */
const stuffedQuery: Attack = ({ lookUp, correct, countries, random }) => {
  const names = countries
    .slice(0, 5 + random.integer(40))
    .flatMap(({ name, capital, currency }) => [name, capital, currency]);
  const terms = [...termsOf(lookUp), ...names];
  const most = (SEARCH * termsOf(lookUp).length) / new Set(terms).size;
  return { behavior: { searches: [terms.join(", ")], report: correct[0] ?? "" }, most };
};

/** Every search, every page, and a wrong report. */
const everything: Attack = (given) => {
  const { lookUp, countries, random } = given;
  const report = oneOf(countries, random)?.[lookUp.ask === "country" ? "name" : "region"] ?? "";
  if (!isWrong(given, report)) return undefined;
  const searches = [...countries.slice(0, 30).map(({ name }) => name), rightQuery(lookUp)];
  const visits = countries.slice(0, 30).flatMap(({ name, capital }) => [name, capital]);
  return { behavior: { searches, visits, report }, most: SEARCH + PAGE };
};

/** Tasks that name nothing, and pages that do not exist. */
const nonsense: Attack = ({ lookUp, random }) => {
  const tasks = [
    "capital of no such page",
    "country with borders nowhere",
    "country with capital  , borders  ",
    taskOf(lookUp).toUpperCase(),
    "",
  ];
  const visits = ["no such page", "nowhere", ""];
  return { behavior: { task: oneOf(tasks, random) ?? "", visits, report: oneOf(visits, random) ?? "" }, most: 0 };
};

const ATTACKS: Readonly<Record<string, Attack>> = {
  ...{ wrongCountry, wrongCountryOfRightPage, wrongField, wrongPage, withoutLooking },
  ...{ otherPagesOpened, stuffedReport, stuffedQuery, everything, nonsense },
};

/** A task of a question's chain, or one that its planner worded vaguely or about something else. */
function drawCase(i: number): Case {
  const random = stream("atlas-adversary", i);
  const world = worldOf(i % WORLDS);
  const countries = [...world.countries.values()];
  const draft = drawQuestion(anyKind(random), world.number, random, isOn("training"));
  const several = draft.lookUps.find((one) => one.ask === "country" && one.where.length > 1);
  const onChain = (random.uniform() < 0.8 && several) || (oneOf(draft.lookUps, random) ?? expect.fail());
  const { name } = oneOf(countries, random) ?? expect.fail();
  const off: LookUp = { ask: oneOf(ASKED, random) ?? "capital", of: name };
  const vague: LookUp = onChain.ask === "country" ? { ask: "country", where: onChain.where.slice(0, 1) } : onChain;
  const lookUp = oneOf([onChain, onChain, vague, off], random) ?? onChain;
  const { prompt, answer } = draft;
  const question = { id: "q", kind: "hop1", level: 1, prompt, answer, facts: factsOfDraft(draft, world.number) };
  return { world, question, lookUp, correct: answersTo(lookUp, world), countries, random };
}

test("10,000 attacks: none is paid more than its search and its page are worth", { timeout: 120_000 }, () => {
  const names = Object.keys(ATTACKS);
  const cases = new Map(names.map((name) => [name, 0]));
  const overpaid = new Map<string, string>();
  for (let i = 0; names.some((name) => (cases.get(name) ?? 0) < CASES / names.length); i++) {
    const given = drawCase(i);
    for (const [name, attack] of Object.entries(ATTACKS)) {
      const tried = cases.get(name) ?? 0;
      const { behavior, most } = (tried < CASES / names.length && attack(given)) || {};
      if (!behavior || most === undefined) continue;
      cases.set(name, tried + 1);
      const score = paid(given, behavior);
      if (score > most + 1e-9) overpaid.set(name, `${score} instead of ${most}: ${JSON.stringify(behavior)}`);
    }
  }
  expect(Object.fromEntries(overpaid)).toEqual({});
});

test("work done right is paid in full, however the conditions of the task are ordered and spelled", () => {
  for (let i = 0; i < 2000; i++) {
    const given = drawCase(i);
    const { lookUp, correct, random } = given;
    const report = oneOf(correct, random) ?? expect.fail();
    const visits = [lookUp.ask === "country" ? report : lookUp.of];
    const honest = {
      searches: [rightQuery(lookUp)],
      visits,
      report: given.lookUp.ask === "area" && report === "0" ? "under 1" : report,
    };
    const task =
      lookUp.ask === "country" ? taskOf({ ask: "country", where: lookUp.where.toReversed() }) : taskOf(lookUp);
    const wordings = [taskOf(lookUp), task, ` ${task} `, task.replaceAll(" ", "  ")];
    expect(wordings.map((one) => paid(given, { ...honest, task: one }))).toEqual(wordings.map(() => 1));
  }
});

test("the order of a task's conditions changes no score of any behavior", () => {
  let compared = 0;
  for (let i = 0; compared < 500; i++) {
    const given = drawCase(i);
    if (given.lookUp.ask !== "country" || given.lookUp.where.length < 2) continue;
    const attack = (i % 2 === 0 ? wrongCountry : wrongCountryOfRightPage)(given);
    if (!attack) continue;
    compared++;
    const task = taskOf({ ask: "country", where: given.lookUp.where.toReversed() });
    expect(paid(given, { ...attack.behavior, task })).toBe(paid(given, attack.behavior));
  }
});
