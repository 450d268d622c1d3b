/**
 * @file What a warm start teaches: demonstrations in worlds used for nothing else, never with a held-out look-up or phrasing.
 * They teach how the tools are called and a plan for each kind of question, and leave the rest to be learned from rewards.
 */
import type { Arm } from "../../../core/contracts/config.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { type Random, stream } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import type { Draft } from "../../atlas/questions/kinds.ts";
import { DEMONSTRATION_WORLDS, drawQuestion } from "../../atlas/questions/questions.ts";
import { isOn } from "../../atlas/questions/split.ts";
import { type World, worldOf } from "../../atlas/world/world.ts";
import { ASKED_KINDS } from "../questions/questions.ts";
import { planDemonstration, plannerDemonstration } from "./planner.ts";
import { lookUpTurns, searcherDemonstration } from "./searcher.ts";

/** Demonstrations for a whole team. */
const PER_TEAM = 1000;

type Demonstrate = (draft: Draft, world: World, random: Random) => Demonstration;

const TEAM: Readonly<Record<string, Demonstrate>> = { main: plannerDemonstration, searcher: searcherDemonstration };
const SINGLE: Readonly<Record<string, Demonstrate>> = {
  main: (draft, world, random) => planDemonstration(draft, world, random, (lookUp) => lookUpTurns(lookUp, world)),
};

export function* demonstrations(agent: string, arm: Arm, seed: number): Generator<Demonstration, void> {
  const agents = arm === "single-agent" ? SINGLE : TEAM;
  const demonstrate = agents[agent];
  const names = Object.keys(agents);
  if (!demonstrate) {
    const message = `gazetteer has no demonstrations of '${agent}' in arm ${arm}: name one of ${names.join(", ")}`;
    throw new MgrpoError("recipe-invalid", message);
  }
  const random = stream(seed, "gazetteer-demonstrations", agent, names.length);
  for (let i = 0; i < PER_TEAM / names.length; i++) {
    const number = DEMONSTRATION_WORLDS.first + random.integer(DEMONSTRATION_WORLDS.count);
    const kind = ASKED_KINDS[i % ASKED_KINDS.length] as string;
    yield demonstrate(drawQuestion(kind, number, random, isOn("training")), worldOf(number), random);
  }
}
