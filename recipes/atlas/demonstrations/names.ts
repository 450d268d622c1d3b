/**
 * @file Practice with names: an agent passes on names from its prompt, and nothing is asked about them. Held-out look-ups are in no other
 * demonstration; their names are in these, so that an agent can write down whatever it is asked about. README.md says how near that comes.
 */
import type { Random } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { answerTurn, callTurn } from "../../small-models/turns.ts";
import { searched } from "../tools.ts";
import type { World } from "../world/world.ts";

/** The share of demonstrations that practise names. */
export const NAMES = 0.1;

/** The planner passes the names on to a sub-agent, which repeats them. */
export function delegatedNames(subAgent: string, world: World, random: Random): Demonstration {
  const names = someNames(world, random);
  return practice(names, callTurn({ name: "delegate", arguments: { agent: subAgent, task: names } }), names);
}

/** An agent with tools searches for the names. */
export function searchedNames(world: World, random: Random): Demonstration {
  const query = someNames(world, random);
  return practice(query, callTurn({ name: "search", arguments: { query } }), searched(world.number, query));
}

const practice = (names: string, call: string, response: string): Demonstration => ({
  prompt: `Names: ${names}`,
  turns: [
    { text: call, responses: [response] },
    { text: answerTurn(names), responses: [] },
  ],
});

/** One or two names of countries, capitals, currencies or languages. */
function someNames(world: World, random: Random): string {
  const countries = [...world.countries.values()];
  const names = Array.from({ length: 1 + random.integer(2) }, () => {
    const { name, capital, currency, languages } = oneOf(countries, random);
    return oneOf([name, capital, currency, oneOf(languages, random)], random);
  });
  return names.join(", ");
}

const oneOf = <T>(list: readonly T[], random: Random): T => list[random.integer(list.length)] as T;
