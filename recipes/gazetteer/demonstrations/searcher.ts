/**
 * @file Demonstrations of the searcher: search for the names in the task, open the titles until a page has the answer, report it. Where no
 * page found has the answer, which is rare, only the first is opened, and the report is `not found`; every other report is correct. Some
 * tasks are those of an imperfect planner: a constraint is missing, the task is worded as a question, or the whole question is delegated. For a
 * whole question, the page of the country asked about is opened last, even if no page found names that country.
 */
import type { Random } from "../../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../../core/recipe.ts";
import type { Draft } from "../../atlas/questions/kinds.ts";
import { answersTo, factOf, type LookUp, termsOf } from "../../atlas/questions/look-up.ts";
import { isHeldOut } from "../../atlas/questions/split.ts";
import type { World } from "../../atlas/world/world.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import { questionFor, taskFor } from "../questions/phrasings.ts";
import { wordingFor } from "../questions/questions.ts";
import { pageText, searchTitles } from "../tools.ts";
import { readPage } from "../world/read-page.ts";

/** The share of tasks with two constraints that lose one, unless what is left is held out. */
const VAGUE = 0.2;
/** The share of `hop2` questions that are delegated whole, as one task. */
const WHOLE = 0.15;
/** The share of the other tasks that are worded as a question. */
const AS_QUESTION = 0.3;

export function searcherDemonstration(draft: Draft, world: World, random: Random): Demonstration {
  const [first, second] = draft.lookUps as readonly [LookUp, LookUp?];
  if (first.ask === "country" && second !== undefined && random.uniform() < WHOLE) {
    const country = answersTo(first, world)[0] as string;
    const turns = [
      ...lookUpTurns(first, world),
      ...(lastOpened(first, world) === country ? [] : [visit(country, world)]),
    ];
    return { prompt: wordingFor(draft, "training", random), turns: [...turns, report(draft.answer)] };
  }
  const lookUp = asDelegated(draft.lookUps[random.integer(draft.lookUps.length)] as LookUp, random);
  const prompt = random.uniform() < AS_QUESTION ? questionFor(lookUp, "training", random) : taskFor(lookUp, random);
  return { prompt, turns: [...lookUpTurns(lookUp, world), report(answerFrom(lookUp, world))] };
}

function asDelegated(lookUp: LookUp, random: Random): LookUp {
  if (lookUp.ask !== "country" || lookUp.where.length === 1 || random.uniform() >= VAGUE) return lookUp;
  const vague: LookUp = { ask: "country", where: lookUp.where.slice(0, 1) };
  return isHeldOut(vague) ? lookUp : vague;
}

/** One look-up without its report. */
export function lookUpTurns(lookUp: LookUp, world: World): DemonstrationTurn[] {
  const query = termsOf(lookUp).join(", ");
  const found = searchTitles(world.number, query);
  const search = { text: callTurn({ name: "search", arguments: { query } }), responses: [found] };
  const titles = found.split("\n");
  return [
    search,
    ...titles.slice(0, titles.indexOf(lastOpened(lookUp, world)) + 1).map((title) => visit(title, world)),
  ];
}

/** The page opened last: the first of the titles found whose page has the answer; if none has, the first. */
function lastOpened(lookUp: LookUp, world: World): string {
  const titles = searchTitles(world.number, termsOf(lookUp).join(", ")).split("\n");
  return titles.find((title) => answersOn(title, lookUp, world).length > 0) ?? (titles[0] as string);
}

const answerFrom = (lookUp: LookUp, world: World): string =>
  answersOn(lastOpened(lookUp, world), lookUp, world)[0] ?? "not found";

/** The correct answers that a page shows. */
function answersOn(title: string, lookUp: LookUp, world: World): string[] {
  const page = readPage(pageText(world.number, title));
  if (lookUp.ask !== "country") {
    const country = title === lookUp.of ? world.countries.get(title) : undefined;
    return country ? [factOf(country, lookUp.ask)] : [];
  }
  const shown = [title, ...(page?.facts.get("country") ?? []), ...(page?.facts.get("borders") ?? [])];
  const [condition] = lookUp.where;
  const indirect = lookUp.where.length === 1 && condition?.value === title;
  const answers = answersTo(lookUp, world);
  return shown.filter((name, i) => (i === 0 || indirect) && answers.includes(name));
}

function visit(title: string, world: World): DemonstrationTurn {
  return { text: callTurn({ name: "visit", arguments: { title } }), responses: [pageText(world.number, title)] };
}

const report = (answer: string): DemonstrationTurn => ({ text: answerTurn(answer), responses: [] });
