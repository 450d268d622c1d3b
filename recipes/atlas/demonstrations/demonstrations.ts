/** @file An endless stream of demonstrations per agent, in worlds used for nothing else, and never with a look-up of a held-out question. */
import { MgrpoError } from "../../../core/errors.ts";
import { type Random, stream } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import type { Draft } from "../questions/kinds.ts";
import type { LookUp } from "../questions/look-up.ts";
import { anyKind, DEMONSTRATION_WORLDS, drawQuestion } from "../questions/questions.ts";
import { isOn } from "../questions/split.ts";
import { type World, worldOf } from "../world/world.ts";
import { delegatedNames, NAMES_SHARE, searchedNames } from "./names.ts";
import { mainDemonstration, planned } from "./planner.ts";
import { lookUpOnce, searcherDemonstration } from "./searcher.ts";

interface Demonstrator {
  readonly demonstrate: (draft: Draft, world: World, random: Random) => Demonstration | undefined;
  readonly practiceNames: (world: World, random: Random) => Demonstration;
}

const main: Demonstrator = {
  demonstrate: (draft, world, random) => mainDemonstration(draft, world, random, () => "searcher"),
  practiceNames: (world, random) => delegatedNames("searcher", world, random),
};

const searcher: Demonstrator = {
  demonstrate: (draft, world, random) => searcherDemonstration(anyLookUp(draft, random), world, random),
  practiceNames: searchedNames,
};

const BY_AGENT: Readonly<Record<string, Demonstrator>> = {
  main,
  "main-of-two": {
    demonstrate: (draft, world, random) =>
      mainDemonstration(draft, world, random, ({ ask }) => (ask === "country" ? "finder" : "searcher")),
    practiceNames: (world, random) => delegatedNames(random.uniform() < 0.5 ? "finder" : "searcher", world, random),
  },
  searcher,
  shared: {
    demonstrate: (draft, world, random) => ofEitherRole(random, (role) => role.demonstrate(draft, world, random)),
    practiceNames: (world, random) => ofEitherRole(random, (role) => role.practiceNames(world, random)),
  },
  single: {
    demonstrate: (draft, world, random) =>
      planned(draft, world, random, (lookUps) => {
        const findings = lookUps.map((lookUp) => lookUpOnce(lookUp, world, random));
        return { turns: findings.flatMap(({ turns }) => turns), reports: findings.map(({ report }) => report) };
      }),
    practiceNames: searchedNames,
  },
};

/** Draws one of the two roles, each with probability 1/2, and names it in the demonstration. */
function ofEitherRole<D extends Demonstration | undefined>(random: Random, demonstrate: (role: Demonstrator) => D): D {
  const [agent, role] = random.uniform() < 0.5 ? (["main", main] as const) : (["searcher", searcher] as const);
  const demonstration = demonstrate(role);
  return demonstration && { ...demonstration, agent };
}

/**
 * @param agent `main`, `main-of-two` with a second sub-agent that finds countries, `searcher`, `shared` for one model in both roles, or `single`
 * for the one agent with all tools.
 */
export function* demonstrationsOf(agent: string, seed: number): Generator<Demonstration, never> {
  const demonstrator = BY_AGENT[agent];
  if (!demonstrator) {
    const known = Object.keys(BY_AGENT).join(", ");
    throw new MgrpoError("recipe-invalid", `atlas has no demonstrations of '${agent}': name one of ${known}`);
  }
  const random = stream(seed, "atlas-demonstrations", agent);
  for (;;) {
    const number = DEMONSTRATION_WORLDS.first + random.integer(DEMONSTRATION_WORLDS.count);
    if (random.uniform() < NAMES_SHARE) {
      yield demonstrator.practiceNames(worldOf(number), random);
      continue;
    }
    const draft = drawQuestion(anyKind(random), number, random, isOn("training"));
    const demonstration = demonstrator.demonstrate(draft, worldOf(number), random);
    if (demonstration) yield demonstration;
  }
}

/** Demonstrations that a warm start gives each agent. */
const WARM_START_DEMONSTRATIONS = 1000;

/** The first of an agent's demonstrations. */
export function* firstDemonstrations(agent: string, seed: number): Generator<Demonstration> {
  let left = WARM_START_DEMONSTRATIONS;
  for (const demonstration of demonstrationsOf(agent, seed)) {
    if (left-- === 0) return;
    yield demonstration;
  }
}

/**
 * The share of tasks with two conditions that become vague: the searcher also has to handle a vague planner. A vague task names one neighbor
 * and nothing else. No question has such a look-up, so the split does not cover it.
 */
const VAGUE = 0.3;

function anyLookUp(draft: Draft, random: Random): LookUp {
  const lookUp = draft.lookUps[random.integer(draft.lookUps.length)] as LookUp;
  const vague = lookUp.ask === "country" && random.uniform() < VAGUE;
  return vague ? { ask: "country", where: lookUp.where.slice(0, 1) } : lookUp;
}
