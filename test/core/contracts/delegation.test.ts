/** @file Which teams are accepted: a tree below the main agent, of bounded depth, whose invocations fit in a group's record. */
import fc from "fast-check";
import { expect, test } from "vitest";
import * as z from "zod";
import { agentsBelow, delegationFaults, MAX_LEVELS, maxInvocations } from "../../../core/contracts/delegation.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

type Delegates = Record<string, readonly string[]>;

const team = (delegates: Delegates) =>
  Object.fromEntries(Object.entries(delegates).map(([name, own]) => [name, { model: "m", delegates: [...own] }]));

const parse = (delegates: Delegates, changes: object = {}) =>
  teamConfig({ agents: team(delegates), rolloutsPerQuestion: 2, ...changes });

/** Path and message of each fault, one fault per line. */
function faultsOf(run: () => unknown): string {
  try {
    run();
    return "none";
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    return error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n");
  }
}

const chain = (levels: number): Delegates =>
  Object.fromEntries(
    ["main", ...Array.from({ length: levels }, (_, i) => `a${i}`)].map((name, i) => [
      name,
      i < levels ? [`a${i}`] : [],
    ]),
  );

test.each<[string, Delegates, RegExp]>([
  [
    "an agent with a name that the report uses",
    { main: ["total"], total: [] },
    /agents\.total: no agent can have this name/,
  ],
  [
    "a delegate that is not in the team",
    { main: ["a"], a: ["x"] },
    /agents\.a\.delegates: 'x' is not a sub-agent of this team: name one of a, or remove it/,
  ],
  [
    "the main agent as a delegate",
    { main: ["a"], a: ["main"] },
    /agents\.a\.delegates: 'main' is not a sub-agent of this team/,
  ],
  [
    "a delegate that is listed twice",
    { main: ["a", "a"], a: [] },
    /agents\.main\.delegates: lists 'a' twice: remove one/,
  ],
  [
    "an agent that nobody delegates to",
    { main: ["a"], a: [], b: [] },
    /agents\.b: nobody delegates to 'b': add it to agents\.main\.delegates/,
  ],
  [
    "an agent with two callers",
    { main: ["a", "b"], a: ["b"], b: [] },
    /agents\.a\.delegates: 'main' delegates to 'b' too: an agent has one caller; give 'a' an agent of its own, with policy of:b/,
  ],
  [
    "a cycle of delegates",
    { main: ["a"], a: [], b: ["c"], c: ["b"] },
    /agents\.b: the main agent never reaches 'b': its callers form a cycle, b → c → b/,
  ],
  ["an agent that delegates to itself", { main: ["a"], a: [], b: ["b"] }, /its callers form a cycle, b → b/],
])("%s is refused", (_what, delegates, message) => {
  expect(faultsOf(() => parse(delegates))).toMatch(message);
});

test(`a team has at most ${MAX_LEVELS} levels of sub-agents`, () => {
  const limits = { turns: 1, calls: 1 };
  const agentsOf = (levels: number) =>
    Object.fromEntries(Object.entries(team(chain(levels))).map(([name, agent]) => [name, { ...agent, limits }]));
  expect(Object.keys(teamConfig({ agents: agentsOf(MAX_LEVELS) }).agents)).toHaveLength(MAX_LEVELS + 1);
  expect(() => teamConfig({ agents: agentsOf(MAX_LEVELS + 1) })).toThrow(
    /main → a0 → a1 → a2 → a3 → a4 has 5 levels of sub-agents: at most 4 are allowed/,
  );
});

test("two agents at different levels may share a policy", () => {
  const agents = { ...team({ main: ["a", "b"], a: ["b2"], b: [] }), b2: { policy: "of:b" as const } };
  expect(teamConfig({ agents, rolloutsPerQuestion: 2 }).agents["b2"]).toMatchObject({ model: "m", policy: "of:b" });
});

test("delegates of sub-agents are refused with an app, which decides who calls whom", () => {
  expect(faultsOf(() => parse({ main: ["a"], a: ["b"], b: [] }, { runner: "recipe" }))).toMatch(
    /agents\.a\.delegates: an app runs the rollouts .* set it to \[\], and list its agents in agents\.main\.delegates/,
  );
});

test("a group's record has room for the invocations of all levels: with 8 turns of 4 calls at each of two levels, up to 32 * (1 + 32) = 1,056 per rollout", () => {
  const { agents } = parse({ main: ["a"], a: ["b"], b: [] });
  expect(maxInvocations(agents, "main")).toBe(1056);
  // (409,600 - 2,048) / (1,500 + 1,056 * 150) = 2.55: two rollouts fit
  expect(() => parse({ main: ["a"], a: ["b"], b: [] }, { rolloutsPerQuestion: 3 })).toThrow(
    /up to 1056 invocations, does not fit .* set it to at most 2, or lower limits\.turns or limits\.calls of 'main' or 'a'/,
  );
});

/** Any graph: each of up to six agents names any of them, even itself. */
const anyTeam = fc
  .integer({ min: 1, max: 6 })
  .chain((n) => fc.array(fc.subarray(Array.from({ length: n }, (_, i) => i)), { minLength: n, maxLength: n }))
  .map((edges) => Object.fromEntries(edges.map((to, i) => [`a${i}`, { delegates: to.map((j) => `a${j}`) }])));

test("a team without faults is a tree: from the main agent, every other agent is reached exactly once", () => {
  fc.assert(
    fc.property(anyTeam, (agents) => {
      if (delegationFaults({ main: "a0", agents }).length > 0) return;
      expect(agentsBelow(agents, "a0").toSorted()).toEqual(Object.keys(agents).slice(1));
    }),
    { numRuns: 2000 },
  );
});

test("a tree that is not too deep has no faults", () => {
  const trees = fc.array(fc.nat(100), { maxLength: 5 }).map((parents) => {
    const agents: Record<string, { delegates: string[] }> = { a0: { delegates: [] } };
    for (const [i, parent] of parents.entries()) {
      agents[`a${i + 1}`] = { delegates: [] };
      agents[`a${Math.min(parent % (i + 1), MAX_LEVELS - 1)}`]?.delegates.push(`a${i + 1}`);
    }
    return agents;
  });
  fc.assert(
    fc.property(trees, (agents) => {
      expect(delegationFaults({ main: "a0", agents })).toEqual([]);
    }),
  );
});
