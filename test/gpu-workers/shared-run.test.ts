/** @file A whole run whose two agents share a policy: each step trains and publishes one version for both. */
import { expect, test } from "vitest";
import { Manifest, TeamManifest } from "../../core/contracts/checkpoint.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { AgentRecord, GroupRecord, StepRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { relayConfig, sharedRelayConfig } from "../fixtures/relay/start.ts";
import { recordsOf, startRelay } from "../fixtures/relay/world.ts";

const suites = { evaluation: { suites: [{ name: "sampled", questions: 2 }] } };
const shared = sharedRelayConfig(suites);

async function runOnce(config = shared) {
  const { memory, work } = await startRelay(config);
  await Promise.all([work(), work({ agent: "searcher" }), work({ agent: "*", roles: ["eval"] })]);
  const read = async (key: string) => JSON.parse(new TextDecoder().decode(await memory.objects.get(key)));
  return { memory, read, records: await recordsOf(memory, config) };
}

test("each step pins both agents to one version, and publishes the next one once for both", async () => {
  const { memory, read, records } = await runOnce();
  expect(records).toMatchObject({ status: "finished", reason: "" });
  expect(records.weights["main"]).toHaveLength(shared.steps + 1);
  expect(new Set(records.weights["main"]).size).toBe(shared.steps + 1);
  // The searcher has no version and no agent record of its own.
  expect(records.weights["searcher"]).toEqual([]);
  expect(await memory.table.get(tableKeys.agent(shared.run, "searcher"))).toBeUndefined();
  const owner = AgentRecord.parse(await memory.table.get(tableKeys.agent(shared.run, "main")));
  expect(owner.version).toBe(shared.steps);

  for (let s = 0; s < shared.steps; s++) {
    const step = StepRecord.parse(await memory.table.get(tableKeys.step(shared.run, s)));
    expect(step).toMatchObject({ policy: { main: s, searcher: s }, trained: ["main"] });
    const team = TeamManifest.parse(await read(objectKeys.team(shared.run, s + 1)));
    expect(team.agents["searcher"]).toEqual(team.agents["main"]);
    expect(team.agents["main"]).toMatchObject({ manifest: objectKeys.manifest(shared.run, "main", s + 1) });
  }
  const key = objectKeys.outcome({ run: shared.run, phase: "train", step: 1, group: 0, rollout: 0 });
  const outcome = Outcome.parse(await read(key));
  expect(outcome).toMatchObject({ status: "finished", trajectory: { agent: "main", version: 1 } });
});

test("both agents' trajectories are trained on, and the step's summary has statistics for each agent", async () => {
  const { memory, read } = await runOnce();
  const step = StepRecord.parse(await memory.table.get(tableKeys.step(shared.run, 1)));
  const manifest = Manifest.parse(await read(objectKeys.manifest(shared.run, "main", 2)));
  const groups = await Promise.all(
    step.groups.map(async (_, g) => GroupRecord.parse(await memory.table.get(tableKeys.group(shared.run, 1, g)))),
  );
  const trained = (agent: string) =>
    groups.reduce((sum, { finalized }) => sum + (finalized[agent]?.trajectories.length ?? 0), 0);
  expect(trained("searcher")).toBeGreaterThan(0);
  expect(manifest.stats?.trajectories).toBe(trained("main") + trained("searcher"));
  const { training, shared: whole } = summarizeStep(shared, step, groups, new Map([["main", manifest]]), 1);
  expect(Object.keys(training)).toEqual(["main", "searcher"]);
  // The scripted engine cannot measure the gradient norm of one agent.
  expect(training["searcher"]).toMatchObject({ share: 0.5, trajectories: trained("searcher"), gradientNorm: null });
  expect(training["searcher"]?.entropy).toBeGreaterThan(0);
  expect(whole).toEqual({ main: { gradientNorm: manifest.stats?.gradientNorm } });
});

test("a second run ends with the same records, and its trained weights differ from those of a run with two policies", async () => {
  const [one, again, apart] = await Promise.all([runOnce(), runOnce(), runOnce(relayConfig(suites))]);
  expect(again.records).toEqual(one.records);
  expect(one.records.weights["main"]?.[0]).toBe(apart.records.weights["main"]?.[0]);
  expect(one.records.weights["main"]?.[1]).not.toBe(apart.records.weights["main"]?.[1]);
});
