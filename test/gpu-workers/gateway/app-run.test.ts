/** @file Whole runs whose rollouts an app runs through the gateway: two workers and an evaluator in one process. */
import { expect, test } from "vitest";
import { objectKeys } from "../../../core/contracts/keys.ts";
import { parseJson } from "../../../core/contracts/parse.ts";
import { Invocation, Outcome } from "../../../core/contracts/rollout.ts";
import { recipeRunner } from "../../../gpu-workers/gateway/runners.ts";
import { relayApp } from "../../fixtures/relay/app.ts";
import { appConfig } from "../../fixtures/relay/start.ts";
import { recordsOf, startRelay } from "../../fixtures/relay/world.ts";

const config = appConfig({ rolloutsPerQuestion: 6, evaluation: { suites: [{ name: "sampled" }] } });

async function runOnce() {
  const { memory, work } = await startRelay(config);
  const parts = { runner: recipeRunner(relayApp) };
  await Promise.all([work({}, parts), work({ agent: "searcher" }), work({ agent: "*", roles: ["eval"] }, parts)]);
  return { records: await recordsOf(memory, config), memory };
}

test("an app's run trains both agents, and a second run ends with the same records", async () => {
  const { records, memory } = await runOnce();
  expect(records.status).toBe("finished");
  expect(new Set(records.weights["main"]).size).toBe(config.steps + 1);
  expect(new Set(records.weights["searcher"]).size).toBe(config.steps + 1);
  expect(records.evaluations.map(({ team, state, n }) => ({ team, state, n }))).toEqual(
    [0, 3].map((team) => ({ team, state: "done", n: 6 })),
  );
  const keys = memory.objects.keys().filter((key) => key.startsWith("runs/relay/outcomes/"));
  expect(keys).toHaveLength(36);
  const outcomes = await Promise.all(
    keys.map(async (key) => parseJson(Outcome, (await memory.objects.get(key)) ?? "", key)),
  );
  const finished = outcomes.flatMap((outcome) => (outcome.status === "finished" ? [outcome] : []));
  expect(finished).toHaveLength(36);
  expect(finished.some(({ invocations }) => invocations.length > 1)).toBe(true);
  for (const { invocations, address } of finished) {
    for (const { id, key } of invocations) {
      expect(key).toBe(objectKeys.invocation("relay", address.step, id));
      const { conversation, trajectory } = parseJson(Invocation, (await memory.objects.get(key)) ?? "", key);
      expect(conversation.turns.length).toBe("actions" in trajectory ? trajectory.actions.length : 0);
    }
  }
  expect((await runOnce()).records).toEqual(records);
}, 60_000);
