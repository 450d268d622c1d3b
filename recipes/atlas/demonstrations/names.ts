/**
 * @file Practice with names: an agent passes on two names from its prompt, and nothing is asked about them. Names that only held-out look-ups
 * contain are in no task or query of any other demonstration; here an agent learns to write them. No practice contains both terms of a
 * held-out look-up.
 */
import type { Random } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import type { Condition } from "../questions/look-up.ts";
import { isHeldOut } from "../questions/split.ts";
import { searchTitles } from "../tools.ts";
import type { World } from "../world/world.ts";

/** The share of demonstrations that practice names. */
export const NAMES_SHARE = 0.1;

/** The planner passes the names on to a sub-agent, which repeats them. */
export function delegatedNames(subAgent: string, world: World, random: Random): Demonstration {
  const names = someNames(world, random);
  return practice(names, callTurn({ name: "delegate", arguments: { agent: subAgent, task: names } }), names);
}

/** An agent with tools searches for the names. */
export function searchedNames(world: World, random: Random): Demonstration {
  const query = someNames(world, random);
  return practice(query, callTurn({ name: "search", arguments: { query } }), searchTitles(world.number, query));
}

const practice = (names: string, call: string, response: string): Demonstration => ({
  prompt: `Names: ${names}`,
  turns: [
    { text: call, responses: [response] },
    { text: answerTurn(names), responses: [] },
  ],
});

/** Two names of countries, capitals, currencies or languages, never the two of a held-out look-up. */
function someNames(world: World, random: Random): string {
  for (;;) {
    const where = [anyName(world, random), anyName(world, random)];
    if (!isHeldOut({ ask: "country", where })) return where.map(({ value }) => value).join(", ");
  }
}

/** A random name, as a condition of a look-up. */
function anyName(world: World, random: Random): Condition {
  const { name, capital, currency, languages } = oneOf([...world.countries.values()], random);
  return oneOf<Condition>(
    [
      { field: "borders", value: name },
      { field: "capital", value: capital },
      { field: "currency", value: currency },
      { field: "language", value: oneOf(languages, random) },
    ],
    random,
  );
}

const oneOf = <T>(list: readonly T[], random: Random): T => list[random.integer(list.length)] as T;
