/** @file A tool that loops, in real processes: the watchdog ends its worker, which is restarted, until the rollout that calls the tool is abandoned. */
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { recipe } from "../fixtures/relay/recipe.ts";
import { buildProcesses } from "./build.ts";
import { runScenario, uninterrupted } from "./processes.ts";

/** The engine's limits: as long as the watchdog's minimum, so that they do not extend the watchdog's limit. */
const LIMIT_SECONDS = 60;

test("the rollout is lost after three crashes while it runs alone, and the run finishes", {
  timeout: 600_000,
}, async () => {
  const built = await buildProcesses({
    "looping/tools": "test/fixtures/looping/tools.ts",
    "looping/rewards": "test/fixtures/relay/rewards.ts",
  });
  onTestFinished(() => built.remove());
  const { agents, ...config } = recipe.config("mgrpo", () => undefined);
  const settings = {
    recipe: join(dirname(built.recipe), "looping"),
    steps: 1,
    agents: { ...agents, main: { ...agents["main"], tools: ["loop"] } },
    limits: { ...config.limits, lostFraction: 1, turnSeconds: LIMIT_SECONDS, trainingSeconds: LIMIT_SECONDS },
    // Only a worker that loops is silent for so long.
    liveness: { heartbeatSeconds: 0.2, leaseSeconds: 10 },
  };
  const { records, started, log } = await runScenario(built, { ...uninterrupted, settings });
  const rollouts = {
    0: { reward: expect.any(Number) },
    1: { excluded: "infrastructure: its worker crashed 3 times while it ran alone" },
  };
  expect(records, log.join("\n")).toMatchObject({ status: "finished", steps: [{ groups: [{ rollouts }, {}] }] });
  // The first crash happens while other rollouts run too, three more while the rollout runs alone.
  expect(started["main"]).toBe(5);
  const ends = log.filter((line) => line.includes('"code":"deadline"'));
  expect(ends.map((line) => JSON.parse(line))).toEqual(
    Array.from({ length: 4 }, () => expect.objectContaining({ level: "error", run: "relay", agent: "main" })),
  );
});
