/**
 * @file Agents whose fleet has a server use it by default. A launch is refused if workers that cannot reach the server
 * would need it.
 */
import { expect, test } from "vitest";
import { fleetPolicies, refuseUnreachableServers } from "../../cli/deployment.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { policiesOf, resolveConfig } from "../../core/training/resolve-config.ts";

const POLICY = "tinker:http://127.0.0.1:8000";
const deployment: Deployment = {
  ...{ bucket: "b", release: "r", clockRule: "c" },
  fleets: ["main", "searcher", "absent"].map((agent) => ({
    ...{ name: agent, agent, group: "g", max: 1, release: "r" },
    roles: ["rollout", "train"],
    ...(agent !== "searcher" && { policy: POLICY }),
  })),
};
const agents = { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s" } };
const config = RunConfig.parse({ run: "r", recipe: "atlas", steps: 1, agents });

test("the fleet's policy is the default for its agent; a policy that the user sets stays", () => {
  const owners = ["main", "searcher"];
  expect(fleetPolicies(owners, deployment, [])).toEqual([`agents.main.policy=${POLICY}`]);
  expect(fleetPolicies(owners, deployment, ["agents.main.model=x"])).toEqual([`agents.main.policy=${POLICY}`]);
  expect(fleetPolicies(owners, deployment, ["agents.main.policy=compiled"])).toEqual([]);
  expect(fleetPolicies(["searcher"], deployment, [])).toEqual([]);
});

test("an agent whose optimizer is its server's gets the fleet's policy, without which its config is refused", () => {
  const recipe = { name: "mine", config: { steps: 1, agents } };
  const choice = { run: "r", seed: 1, arm: "mgrpo" } as const;
  const set = ["agents.main.lora={}", "agents.main.optimizer=server"];
  expect(() => resolveConfig(recipe, { ...choice, set })).toThrow(/optimizer/);
  const policies = fleetPolicies(policiesOf(recipe, "mgrpo", set), deployment, set);
  expect(resolveConfig(recipe, { ...choice, set: [...policies, ...set] }).agents["main"]).toMatchObject({
    policy: POLICY,
    optimizer: { kind: "server" },
  });
  expect(policiesOf(recipe, "mgrpo", ["agents.searcher.policy=of:main"])).toEqual(["main"]);
});

test("an invalid team has no policies: its config is refused with the same error as without a deployment", () => {
  const recipe = { name: "mine", config: { steps: 1, agents } };
  const set = ["agents=null"];
  expect(policiesOf(recipe, "mgrpo", set)).toEqual([]);
  expect(() => resolveConfig(recipe, { run: "r", seed: 1, arm: "mgrpo", set })).toThrow(/^config of run 'r': agents: /);
  const unfinished = { name: "mine", config: () => undefined as never };
  expect(policiesOf(unfinished, "mgrpo")).toEqual([]);
});

test("evaluations of an agent on a fleet's server are refused at launch", () => {
  const on = (policy: string, suites: { name: string }[]) =>
    RunConfig.parse({ ...config, agents: { ...agents, main: { ...agents.main, policy } }, evaluation: { suites } });
  const refused = on(POLICY, [{ name: "held-out" }]);
  expect(() => refuseUnreachableServers(refused, deployment)).toThrow(
    /agent 'main' is on a server that only the instance of fleet main reaches: --set evaluation.suites=\[\]/,
  );
  refuseUnreachableServers(on(POLICY, []), deployment);
  refuseUnreachableServers(on("compiled", [{ name: "held-out" }]), deployment);
});

test("an agent that shares the policy of an agent on a fleet's server is refused at launch", () => {
  const fleets = deployment.fleets.map((fleet) => ({ ...fleet, policy: POLICY }));
  const team = {
    main: { ...agents.main, policy: POLICY, delegates: ["searcher", "reader"] },
    searcher: { ...agents.searcher, policy: POLICY },
    reader: { policy: "of:searcher" },
  };
  const shared = RunConfig.parse({ ...config, agents: team, evaluation: { suites: [] } });
  expect(() => refuseUnreachableServers(shared, { ...deployment, fleets })).toThrow(
    /^agents\.reader\.policy: 'searcher' is on a server that only the instance of fleet searcher reaches/,
  );
});
