/** @file Demonstrations of the main agent: delegate look-ups, calculate, answer; with the errors of error-rates.ts. */

import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Random } from "../../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../../core/recipe.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import type { Draft } from "../questions/kinds.ts";
import { ASKED, answersTo, factOf, type LookUp, taskOf } from "../questions/look-up.ts";
import { isHeldOut } from "../questions/split.ts";
import type { Country } from "../world/countries.ts";
import type { World } from "../world/world.ts";
import { PLANNER_ERROR_RATES } from "./error-rates.ts";

/** Performs look-ups: the turns that they take in this conversation (delegations, or the agent's own searches), and what they found. */
type PerformLookUps = (lookUps: readonly LookUp[]) => {
  readonly turns: readonly DemonstrationTurn[];
  readonly reports: readonly string[];
};

/**
 * The share of reports about a random country, as a faulty searcher's may be: the main agent continues with what it receives. A task without an
 * answer always gets such a report.
 */
const WRONG_REPORTS = 0.15;

/** The sub-agent to delegate a look-up to. */
type ChooseSubAgent = (lookUp: LookUp) => string;

/** A demonstration that delegates its look-ups. Undefined as in `planned`. */
export function mainDemonstration(
  draft: Draft,
  world: World,
  random: Random,
  choose: ChooseSubAgent,
): Demonstration | undefined {
  const ask: PerformLookUps = (lookUps) => {
    const reports = lookUps.map((lookUp) => reportOn(lookUp, world, random));
    const calls = lookUps.map((lookUp) => ({
      name: "delegate",
      arguments: { agent: choose(lookUp), task: taskOf(lookUp) },
    }));
    return { turns: [{ text: callTurn(...calls), responses: reports }], reports };
  };
  return planned(draft, world, random, ask);
}

/** Carries out a plan, errors included. Undefined if a wrong finding leads to a held-out look-up. */
export function planned(draft: Draft, world: World, random: Random, find: PerformLookUps): Demonstration | undefined {
  const turns: DemonstrationTurn[] = [];
  const end = (answer: string): Demonstration => ({
    prompt: draft.prompt,
    turns: [...turns, { text: answerTurn(answer), responses: [] }],
  });
  if (random.uniform() < PLANNER_ERROR_RATES.guess) return end(guess(draft, world, random));
  if (draft.operator) return end(compared(draft, draft.operator, random, find, turns));

  let last: string | undefined;
  for (const lookUp of draft.lookUps) {
    if (last !== undefined && random.uniform() < PLANNER_ERROR_RATES.skipHop[lookUp.ask]) break;
    const intended = withFinding(lookUp, last);
    if (isHeldOut(intended)) return undefined;
    const { turns: lookUpTurns, reports } = find([asDelegated(intended, random)]);
    turns.push(...lookUpTurns);
    last = reports[0] ?? "";
  }
  return end(last ?? "");
}

function compared(
  draft: Draft,
  operator: "+" | "-",
  random: Random,
  find: PerformLookUps,
  turns: DemonstrationTurn[],
): string {
  const { turns: lookUpTurns, reports } = find(draft.lookUps.map((lookUp) => asDelegated(lookUp, random)));
  turns.push(...lookUpTurns);
  const expression = reports.join(` ${operator} `);
  if (random.uniform() < PLANNER_ERROR_RATES.noCalculation[operator]) return inventedNumber(random);
  const result = calculateText(expression);
  turns.push({ text: callTurn({ name: "calculate", arguments: { expression } }), responses: [result] });
  return result;
}

function withFinding(lookUp: LookUp, found: string | undefined): LookUp {
  if (found === undefined) return lookUp;
  if (lookUp.ask !== "country") return { ...lookUp, of: found };
  const where = lookUp.where.map((condition, i) => (i === 0 ? { ...condition, value: found } : condition));
  return { ...lookUp, where };
}

/** The look-up with the planner's errors applied. */
function asDelegated(lookUp: LookUp, random: Random): LookUp {
  if (lookUp.ask !== "country") {
    const wrong = random.uniform() < PLANNER_ERROR_RATES.wrongRelation;
    const others = ASKED.map((ask) => ({ ...lookUp, ask })).filter((one) => one.ask !== lookUp.ask && !isHeldOut(one));
    return (wrong ? others[random.integer(others.length)] : undefined) ?? lookUp;
  }
  const second = lookUp.where[1];
  const drop = second !== undefined && random.uniform() < PLANNER_ERROR_RATES.dropConstraint[second.field];
  return drop ? { ...lookUp, where: lookUp.where.slice(0, 1) } : lookUp;
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
  if (draft.operator) return inventedNumber(random);
  return last === undefined || last.ask === "country" ? country.name : factOf(country, last.ask);
}

const inventedNumber = (random: Random): string => String(random.integer(2000));

const anyOf = (world: World, random: Random): Country =>
  [...world.countries.values()][random.integer(world.countries.size)] as Country;
