/** @file Demonstrations of the planner, all correct: it delegates look-ups one at a time, in English, calculates if need be, and answers. */
import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Random } from "../../../core/random.ts";
import type { Demonstration, DemonstrationTurn } from "../../../core/recipe.ts";
import type { Draft } from "../../atlas/questions/kinds.ts";
import { answersTo, type LookUp } from "../../atlas/questions/look-up.ts";
import type { World } from "../../atlas/world/world.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import { taskFor } from "../questions/phrasings.ts";
import { wordingFor } from "../questions/questions.ts";

/** The turns that one look-up takes in the conversation. */
type LookUpTurns = (lookUp: LookUp, answer: string) => readonly DemonstrationTurn[];

export function plannerDemonstration(draft: Draft, world: World, random: Random): Demonstration {
  return planDemonstration(draft, world, random, (lookUp, answer) => [
    {
      text: callTurn({ name: "delegate", arguments: { agent: "searcher", task: taskFor(lookUp, random) } }),
      responses: [answer],
    },
  ]);
}

/** A demonstration of the whole plan; `lookUpTurns` gives the turns of each look-up. */
export function planDemonstration(draft: Draft, world: World, random: Random, lookUpTurns: LookUpTurns): Demonstration {
  const answers = draft.lookUps.map((lookUp) => answersTo(lookUp, world)[0] as string);
  const turns = draft.lookUps.flatMap((lookUp, i) => lookUpTurns(lookUp, answers[i] as string));
  const calculation = draft.operator ? [calculationTurn(answers.join(` ${draft.operator} `))] : [];
  return {
    prompt: wordingFor(draft, "training", random),
    turns: [...turns, ...calculation, { text: answerTurn(draft.answer), responses: [] }],
  };
}

function calculationTurn(expression: string): DemonstrationTurn {
  const text = callTurn({ name: "calculate", arguments: { expression } });
  return { text, responses: [calculateText(expression)] };
}
