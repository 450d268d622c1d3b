/**
 * @file Cases for an adversary: a task in one of atlas's worlds, as a recipe words it, and all facts of that world. What is correct comes from
 * the world itself, not from the pages that the judge reads.
 */
import { expect } from "vitest";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Rewards } from "../../core/ports.ts";
import { type Random, stream } from "../../core/random.ts";
import type { Draft } from "../../recipes/atlas/questions/kinds.ts";
import { ASKED, answersTo, type Condition, type LookUp, termsOf } from "../../recipes/atlas/questions/look-up.ts";
import { anyKind, drawQuestion, factsOfDraft } from "../../recipes/atlas/questions/questions.ts";
import { isOn } from "../../recipes/atlas/questions/split.ts";
import type { Country } from "../../recipes/atlas/world/countries.ts";
import { type World, worldOf } from "../../recipes/atlas/world/world.ts";

const WORLDS = 6;

/** What a recipe supplies. */
export interface Target {
  readonly name: string;
  readonly rewards: Rewards;
  /** The text of a page. */
  pageText(world: number, title: string): string;
  /** The look-up as a task. @param described what the task says of the country instead of its name. */
  taskFor(lookUp: LookUp, described: readonly Condition[] | undefined, random: Random): string;
  /** Whether a task can ask for a fact about a country that it describes. */
  readonly describes: boolean;
  /** The most that a query of `terms` is worth, in [0, 1]. `terms` include every name in the task. */
  queryWorth(given: Case, terms: readonly string[]): number;
  /** Texts that all mean the same report. */
  spellings(report: string): readonly string[];
  /** Tasks that ask for nothing. */
  readonly nonsense: readonly string[];
}

/** One task in one world. The adversary knows all of it. */
export interface Case {
  readonly target: Target;
  readonly world: World;
  readonly question: Question;
  readonly task: string;
  readonly lookUp: LookUp;
  /** What the task says of the country that it asks for, or of the country whose fact it asks for. Undefined: it names the country. */
  readonly where: readonly Condition[] | undefined;
  readonly correct: readonly string[];
  readonly countries: readonly Country[];
  readonly random: Random;
}

export interface Behavior {
  readonly task?: string;
  readonly searches?: readonly string[];
  readonly visits?: readonly string[];
  readonly report: string | null;
}

/** A task on a question's chain, one that the planner words vaguely, or one about something else. */
export function drawCase(target: Target, i: number): Case {
  const random = stream(`${target.name}-adversary`, i);
  const world = worldOf(i % WORLDS);
  const countries = [...world.countries.values()];
  const draft = drawQuestion(anyKind(random), world.number, random, isOn("training"));
  const described = target.describes && random.uniform() < 0.5 ? describedFact(draft, random) : undefined;
  const lookUp = described?.lookUp ?? anyLookUp(draft, countries, random);
  const where = lookUp.ask === "country" ? lookUp.where : described?.where;
  const { prompt, answer } = draft;
  const question = { id: "q", kind: "hop1", level: 1, prompt, answer, facts: factsOfDraft(draft, world.number) };
  const task = target.taskFor(lookUp, described?.where, random);
  return { target, world, question, task, lookUp, where, correct: correctFor(lookUp, where, world), countries, random };
}

function anyLookUp({ lookUps }: Draft, countries: readonly Country[], random: Random): LookUp {
  const several = lookUps.find((one) => one.ask === "country" && one.where.length > 1);
  const onChain = (random.uniform() < 0.8 && several) || (oneOf(lookUps, random) ?? expect.fail());
  const { name } = oneOf(countries, random) ?? expect.fail();
  const off: LookUp = { ask: oneOf(ASKED, random) ?? "capital", of: name };
  const vague: LookUp = onChain.ask === "country" ? { ask: "country", where: onChain.where.slice(0, 1) } : onChain;
  return oneOf([onChain, onChain, vague, off], random) ?? onChain;
}

/** The last two look-ups of a chain as one, sometimes worded vaguely. */
function describedFact({ lookUps }: Draft, random: Random) {
  const [country, fact] = lookUps.slice(-2);
  if (country?.ask !== "country" || !fact || fact.ask === "country") return undefined;
  return { lookUp: fact, where: random.uniform() < 0.8 ? country.where : country.where.slice(0, 1) };
}

function correctFor(lookUp: LookUp, where: readonly Condition[] | undefined, world: World): string[] {
  const { ask } = lookUp;
  if (ask === "country" || !where) return answersTo(lookUp, world);
  return answersTo({ ask: "country", where }, world).flatMap((of) => answersTo({ ask, of }, world));
}

/** The task with its conditions in reverse order. A recipe with several phrasings may also phrase it differently. */
export function reversed({ target, lookUp, where, random }: Case): string {
  const conditions = where?.toReversed();
  return lookUp.ask === "country"
    ? target.taskFor({ ask: "country", where: conditions ?? [] }, undefined, random)
    : target.taskFor(lookUp, conditions, random);
}

/** The expert's score of a searcher in the world of the case. */
export function rewardOf(
  { target, world, question, task }: Case,
  { task: prompt = task, searches = [], visits = [], report }: Behavior,
): number {
  const call = (name: string, key: string, text: string, response: string) => ({
    text: "",
    calls: [{ name, arguments: { [key]: text } }],
    responses: [{ name, text: response }],
  });
  const conversation: Conversation = {
    prompt,
    turns: [
      ...searches.map((query) => call("search", "query", query, "")),
      ...visits.map((title) => call("visit", "title", title, target.pageText(world.number, title))),
    ],
    stop: report === null ? "turn-limit" : "answered",
    answer: report,
    fault: null,
  };
  return target.rewards.expert(question, "searcher", conversation) as number;
}

export const oneOf = <T>(list: readonly T[], random: Random): T | undefined => list[random.integer(list.length)];
/** Everything that the task names. */
export const termsIn = ({ lookUp, where }: Case) => where?.map(({ value }) => value) ?? termsOf(lookUp);
export const rightQuery = (given: Case) => termsIn(given).join(", ");

/** What a searcher does that completes the task correctly. */
export function honest(given: Case): Behavior & { readonly report: string } {
  const { lookUp, correct, random } = given;
  const report = (lookUp.ask === "country" ? oneOf(correct, random) : answersTo(lookUp, given.world)[0]) ?? "";
  return {
    searches: [rightQuery(given)],
    visits: [lookUp.ask === "country" ? report : lookUp.of],
    report: lookUp.ask === "area" && report === "0" ? "under 1" : report,
  };
}
