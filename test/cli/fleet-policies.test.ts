/** @file Agents whose fleet has a server: they use it by default, and are not evaluated by workers that cannot reach it. */
import { expect, test } from "vitest";
import { fleetPolicies, refuseUnreachableServers } from "../../cli/deployment.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";

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
  expect(fleetPolicies(config, deployment, [])).toEqual([`agents.main.policy=${POLICY}`]);
  expect(fleetPolicies(config, deployment, ["agents.main.model=x"])).toEqual([`agents.main.policy=${POLICY}`]);
  expect(fleetPolicies(config, deployment, ["agents.main.policy=compiled"])).toEqual([]);
});

test("evaluations of an agent on such a server are refused at launch", () => {
  const on = (policy: string, suites: { name: string }[]) =>
    RunConfig.parse({ ...config, agents: { ...agents, main: { ...agents.main, policy } }, evaluation: { suites } });
  const refused = on(POLICY, [{ name: "held-out" }]);
  expect(() => refuseUnreachableServers(refused, deployment)).toThrow(
    /agent 'main' is on a server that only the instance of fleet main reaches: --set evaluation.suites=\[\]/,
  );
  refuseUnreachableServers(on(POLICY, []), deployment);
  refuseUnreachableServers(on("compiled", [{ name: "held-out" }]), deployment);
});
