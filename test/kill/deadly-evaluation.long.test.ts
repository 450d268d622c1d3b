/** @file A question whose rollout kills the evaluating process, in real processes: the rollout is abandoned, and the evaluation ends. */
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { buildProcesses } from "./build.ts";
import { runScenario, uninterrupted } from "./processes.ts";

test("the rollout is lost after five crashes, three of them while it runs alone, and both evaluations end", {
  timeout: 300_000,
}, async () => {
  const built = await buildProcesses({
    "deadly/tools": "test/fixtures/deadly/tools.ts",
    "deadly/rewards": "test/fixtures/relay/rewards.ts",
  });
  onTestFinished(() => built.remove());
  const settings = {
    recipe: join(dirname(built.recipe), "deadly"),
    steps: 1,
    evaluation: { suites: [{ name: "sampled" }] },
    // Only a worker that has died is silent for so long.
    liveness: { heartbeatSeconds: 0.2, leaseSeconds: 6 },
  };
  const { records, started, log } = await runScenario(built, { ...uninterrupted, settings, evaluates: true });
  const evaluations = [
    { team: 0, state: "done", n: 5 },
    { team: 1, state: "done", n: 6 },
  ];
  expect(records, log.join("\n")).toMatchObject({ status: "finished", evaluations });
  // The first crash makes no suspects. The second makes every rollout in flight a suspect. The deadly rollout then runs alone, and crashes its
  // worker three more times.
  expect(started["eval"]).toBe(6);
  expect(log.filter((line) => line.includes("rollout abandoned"))).toHaveLength(1);
});
