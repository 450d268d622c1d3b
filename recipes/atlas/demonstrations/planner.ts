/** @file Demonstrations of the main agent: delegate look-ups, calculate, answer; with the faults of faults.ts. */

import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Random } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import type { Draft } from "../questions/kinds.ts";
import { ASKED, answersTo, factOf, type LookUp, taskOf } from "../questions/look-up.ts";
import type { Country } from "../world/countries.ts";
import type { World } from "../world/world.ts";
import { PLANNER_FAULTS } from "./faults.ts";

type Turn = Demonstration["turns"][number];

/** Makes look-ups: the turns that they take in this conversation (delegations, or the agent's own searches), and what they found. */
export type Finder = (lookUps: readonly LookUp[]) => {
  readonly turns: readonly Turn[];
  readonly reports: readonly string[];
};

/** The share of reports that are wrong, as a faulty searcher's are: the main agent continues with what it receives. */
const WRONG_REPORTS = 0.15;

/** The sub-agent that a look-up is delegated to. */
export type Choice = (lookUp: LookUp) => string;

export function mainDemonstration(draft: Draft, world: World, random: Random, choose: Choice): Demonstration {
  const ask: Finder = (lookUps) => {
    const reports = lookUps.map((lookUp) => reportOn(lookUp, world, random));
    const calls = lookUps.map((lookUp) => ({
      name: "delegate",
      arguments: { agent: choose(lookUp), task: taskOf(lookUp) },
    }));
    return { turns: [{ text: callTurn(...calls), responses: reports }], reports };
  };
  return planned(draft, world, random, ask);
}

/** Carries out a plan, faults included. */
export function planned(draft: Draft, world: World, random: Random, find: Finder): Demonstration {
  const turns: Turn[] = [];
  const end = (answer: string): Demonstration => ({
    prompt: draft.prompt,
    turns: [...turns, { text: answerTurn(answer), responses: [] }],
  });
  if (random.uniform() < PLANNER_FAULTS.guess) return end(guess(draft, world, random));
  if (draft.operator) return end(compared(draft, draft.operator, random, find, turns));

  let last: string | undefined;
  for (const lookUp of draft.lookUps) {
    if (last !== undefined && random.uniform() < PLANNER_FAULTS.skipHop[lookUp.ask]) break;
    const { turns: lookUpTurns, reports } = find([asDelegated(lookUp, last, random)]);
    turns.push(...lookUpTurns);
    last = reports[0] ?? "";
  }
  return end(last ?? "");
}

function compared(draft: Draft, operator: "+" | "-", random: Random, find: Finder, turns: Turn[]): string {
  const { turns: lookUpTurns, reports } = find(draft.lookUps.map((lookUp) => asDelegated(lookUp, undefined, random)));
  turns.push(...lookUpTurns);
  const expression = reports.join(` ${operator} `);
  if (random.uniform() < PLANNER_FAULTS.noCalculation[operator]) return String(random.integer(2000));
  const result = calculateText(expression);
  turns.push({ text: callTurn({ name: "calculate", arguments: { expression } }), responses: [result] });
  return result;
}

/** The look-up with the earlier finding filled in, and the planner's faults applied. */
function asDelegated(lookUp: LookUp, found: string | undefined, random: Random): LookUp {
  if (lookUp.ask !== "country") {
    const wrong = random.uniform() < PLANNER_FAULTS.wrongRelation;
    const others = ASKED.filter((asked) => asked !== lookUp.ask);
    const ask = (wrong ? others[random.integer(others.length)] : undefined) ?? lookUp.ask;
    return { ask, of: found ?? lookUp.of };
  }
  const where = lookUp.where.map((condition, i) =>
    i === 0 && found !== undefined ? { ...condition, value: found } : condition,
  );
  const second = where[1];
  const drop = second !== undefined && random.uniform() < PLANNER_FAULTS.dropConstraint[second.field];
  return { ask: "country", where: drop ? where.slice(0, 1) : where };
}

function reportOn(lookUp: LookUp, world: World, random: Random): string {
  const answers = answersTo(lookUp, world);
  const correct = answers[random.integer(answers.length)];
  if (correct !== undefined && random.uniform() >= WRONG_REPORTS) return correct;
  const country = anyOf(world, random);
  if (lookUp.ask === "country") return country.name;
  return factOf(country, random.uniform() < 0.5 ? lookUp.ask : (ASKED[random.integer(ASKED.length)] ?? "capital"));
}

function guess(draft: Draft, world: World, random: Random): string {
  const last = draft.lookUps.at(-1);
  const country = anyOf(world, random);
  if (draft.operator) return String(random.integer(2000));
  return last === undefined || last.ask === "country" ? country.name : factOf(country, last.ask);
}

const anyOf = (world: World, random: Random): Country =>
  [...world.countries.values()][random.integer(world.countries.size)] as Country;
