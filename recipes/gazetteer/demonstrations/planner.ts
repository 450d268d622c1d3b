/** @file Demonstrations of the planner, all correct: delegate look-ups in English one by one, calculate, answer. */
import { calculateText } from "../../../adapters/tools/calculate.ts";
import type { Random } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import type { Draft } from "../../atlas/questions/kinds.ts";
import { answersTo, type LookUp } from "../../atlas/questions/look-up.ts";
import type { World } from "../../atlas/world/world.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import { taskFor } from "../questions/phrasings.ts";
import { wordingFor } from "../questions/questions.ts";

type Turn = Demonstration["turns"][number];

/** Makes one look-up: the turns that it takes in this conversation. */
type LookUpTurns = (lookUp: LookUp, answer: string) => readonly Turn[];

export function plannerDemonstration(draft: Draft, world: World, random: Random): Demonstration {
  return planned(draft, world, random, (lookUp, answer) => [
    {
      text: callTurn({ name: "delegate", arguments: { agent: "searcher", task: taskFor(lookUp, random) } }),
      responses: [answer],
    },
  ]);
}

/** The whole plan, with look-ups made as `lookUpTurns` makes them. */
export function planned(draft: Draft, world: World, random: Random, lookUpTurns: LookUpTurns): Demonstration {
  const answers = draft.lookUps.map((lookUp) => answersTo(lookUp, world)[0] as string);
  const turns = draft.lookUps.flatMap((lookUp, i) => lookUpTurns(lookUp, answers[i] as string));
  const calculation = draft.operator ? [calculated(answers.join(` ${draft.operator} `))] : [];
  return {
    prompt: wordingFor(draft, "training", random),
    turns: [...turns, ...calculation, { text: answerTurn(draft.answer), responses: [] }],
  };
}

function calculated(expression: string): Turn {
  const text = callTurn({ name: "calculate", arguments: { expression } });
  return { text, responses: [calculateText(expression)] };
}
