/** @file Agents that share a policy: what they inherit, what is refused, and how the loss is divided. */
import { describe, expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import { parse } from "../../../core/contracts/parse.ts";
import {
  agentsOfPolicy,
  ownerOf,
  ownsPolicy,
  policySettings,
  sharedPolicies,
  sharesOf,
  withInherited,
  withoutInherited,
} from "../../../core/contracts/shared-policy.ts";
import { policyAt, trainedAgents } from "../../../core/training/step-plan.ts";

const main = {
  model: "m",
  lora: { rank: 4 },
  optimizer: { learningRate: 1e-3 },
  engine: { slots: 16 },
  delegates: ["searcher", "finder"],
  limits: { contextTokens: 256 },
};
const searcher = { policy: "of:main", tools: ["search"], limits: { contextTokens: 320 } };
const finder = { model: "f" };

const given = (agents: object) => ({ run: "r", recipe: "atlas", steps: 2, agents });
const parsed = (agents: object) => RunConfig.parse(given(agents));
const team = parsed({ main, searcher, finder });

function faults(agents: object): string[] {
  const { error } = RunConfig.safeParse(given(agents));
  return (error?.issues ?? []).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

describe("an agent that shares a policy", () => {
  test("inherits the settings of the policy from its owner, and keeps all others", () => {
    const { main: owner, searcher: agent } = team.agents;
    for (const key of ["model", "lora", "trained", "optimizer", "engine"] as const)
      expect(agent?.[key]).toEqual(owner?.[key]);
    expect(agent).toMatchObject({
      policy: "of:main",
      tools: ["search"],
      delegates: [],
      limits: { contextTokens: 320 },
    });
    expect(Object.keys(team.agents).map((name) => ownerOf(team.agents, name))).toEqual(["main", "main", "finder"]);
    expect(agentsOfPolicy(team.agents, "main")).toEqual(["main", "searcher"]);
    expect(ownsPolicy(team.agents, "searcher")).toBe(false);
  });

  test("shares with its owner a context that holds the conversations of every agent with the policy", () => {
    for (const name of ["main", "searcher"]) {
      const settings = policySettings(team.agents, name);
      expect(settings).toMatchObject({ model: "m", policy: "compiled", limits: { contextTokens: 320 } });
    }
    expect(policySettings(team.agents, "finder")).toBe(team.agents["finder"]);
  });

  test("publishes nothing, and is at its owner's version", () => {
    expect(trainedAgents(team)).toEqual(["main", "finder"]);
    expect(policyAt(team, 7)).toEqual({ main: 7, searcher: 7, finder: 7 });
  });

  test("may be the main agent, with a policy that a sub-agent owns", () => {
    const { agents } = parsed({ main: { policy: "of:searcher", delegates: ["searcher"] }, searcher: { model: "s" } });
    expect(agentsOfPolicy(agents, "searcher")).toEqual(["main", "searcher"]);
    expect(agents["main"]?.model).toBe("s");
  });
});

test("parsing a parsed config again changes nothing", () => {
  expect(RunConfig.parse(structuredClone(team))).toEqual(team);
  expect(withInherited(withoutInherited(team.agents))).toEqual(team.agents);
  const { searcher: bare } = withoutInherited(team.agents);
  expect(Object.keys(bare ?? {})).not.toContain("model");
});

test("shares are relative to each other, and sum to 1 over a policy's agents", () => {
  expect([...sharesOf(team.agents, "main")]).toEqual([
    ["main", 0.5],
    ["searcher", 0.5],
  ]);
  const { agents } = parsed({ main: { ...main, share: 3 }, searcher, finder });
  expect([...sharesOf(agents, "main").values()]).toEqual([0.75, 0.25]);
  expect([...sharesOf(agents, "finder")]).toEqual([["finder", 1]]);
  expect(sharedPolicies(agents)).toEqual({
    main: { owner: "main", share: 0.75 },
    searcher: { owner: "main", share: 0.25 },
  });
});

describe("is refused:", () => {
  test.each([
    ["of nobody", "of:nobody", /^agents.searcher.policy: no agent 'nobody' in agents: write of:main or of:finder$/],
    [
      "of itself",
      "of:searcher",
      /^agents.searcher.policy: an agent cannot share its own policy: write of:main or of:finder$/,
    ],
    ["without a name", "of:", /^agents.searcher.policy: no agent '' in agents/],
    [
      "of a property that every object inherits",
      "of:constructor",
      /^agents.searcher.policy: no agent 'constructor' in/,
    ],
    ["of the prototype of every object", "of:__proto__", /^agents.searcher.policy: no agent '__proto__' in/],
  ])("a shared policy %s", (_, policy, message) => {
    const [first] = faults({ main, searcher: { ...searcher, policy, model: "m" }, finder });
    expect(first).toMatch(message);
  });

  test("a shared policy of an agent that itself shares one, in a chain or in a cycle", () => {
    const chain = faults({ main, searcher, finder: { policy: "of:searcher", model: "m" } });
    expect(chain).toEqual([
      "agents.finder.policy: 'searcher' has no policy of its own, but that of 'main': write of:main",
    ]);
    const cycle = faults({
      main: { ...main, policy: "of:searcher", delegates: ["searcher"] },
      searcher: { policy: "of:main", model: "m" },
    });
    expect(cycle).toHaveLength(2);
    expect(cycle[0]).toMatch(/^agents.main.policy: 'searcher' has no policy of its own, but that of 'main'/);
  });

  test("a shared policy of an agent behind an API", () => {
    const api = { policy: "openai:http://127.0.0.1:1/v1", model: "x", trained: false, delegates: ["searcher"] };
    expect(faults({ main: api, searcher: { policy: "of:main" } })).toEqual([
      "agents.searcher.policy: 'main' is behind an API and has no weights to share: repeat its policy and model here",
    ]);
  });

  test("an unknown owner, with no suggestion of an agent behind an API", () => {
    const api = { policy: "openai:http://127.0.0.1:1/v1", model: "x", trained: false };
    expect(faults({ main, searcher: { policy: "of:nobody", model: "m" }, finder: api })).toContain(
      "agents.searcher.policy: no agent 'nobody' in agents: write of:main",
    );
  });

  test.each([
    ["model", "other"],
    ["lora", null],
    ["trained", false],
    ["optimizer", { learningRate: 2e-3 }],
    ["engine", { slots: 8 }],
  ])("an agent with a different %s than its owner", (key, value) => {
    expect(faults({ main, searcher: { ...searcher, [key]: value }, finder })).toEqual([
      `agents.searcher.${key}: differs from that of 'main', whose policy it shares: remove it`,
    ]);
  });

  test("a share of a policy that is not shared", () => {
    expect(faults({ main, searcher, finder: { ...finder, share: 2 } })).toEqual([
      "agents.finder.share: does nothing: no other agent has its policy; remove it",
    ]);
  });

  test("an entropy bonus of an agent whose owner is on a server that cannot compute it", () => {
    const entropy = { start: 0.1, end: 0 };
    const own = { model: "m", policy: "tinker:http://127.0.0.1:1", delegates: ["searcher"] };
    const [first] = faults({ main: own, searcher: { policy: "of:main", algorithm: { entropy } } });
    expect(first).toMatch(/^agents.searcher.algorithm.entropy: agent 'searcher' is on a Tinker server/);
  });
});

test("an invalid setting of an owner is reported under the owner's name, although other agents inherit it", () => {
  const wrong = given({ main: { ...main, engine: { provider: "gpu" } }, searcher, finder });
  expect(() => parse(RunConfig, wrong, "run config", "config-invalid")).toThrow(/agents\.main\.engine\.provider: /);
});
