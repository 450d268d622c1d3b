/**
 * @file With draws named by tokens, an app and this program's own loop train the same weights. test/examples/ai-sdk-parity.long.test.ts shows the
 * same for the models of atlas.
 */
import { expect, test } from "vitest";
import { recipeRunner } from "../../../gpu-workers/gateway/runners.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import type { WorkerParts } from "../../../gpu-workers/worker-process.ts";
import { relayApp } from "../../fixtures/relay/app.ts";
import { appConfig, relayConfig } from "../../fixtures/relay/start.ts";
import { openRun, recordsOf, startWorker } from "../../fixtures/relay/world.ts";

const settings = { steps: 2, rolloutsPerQuestion: 6, evaluation: { suites: [] } };

async function weightsOf(changes: object, parts: Partial<WorkerParts>) {
  const log = createLog(() => {});
  const { config, store } = await openRun(log, { ...settings, ...changes });
  const never = new AbortController().signal;
  await Promise.all([
    startWorker(store, config.run, {}, never, log, parts),
    startWorker(store, config.run, { agent: "searcher" }, never, log),
  ]);
  const { status, weights, steps } = await recordsOf(store, config);
  const scores = steps.flatMap(({ groups }) => groups.flatMap(({ rollouts }) => Object.values(rollouts)));
  return { status, weights, rewards: scores.map((score) => ("excluded" in score ? score.excluded : score.reward)) };
}

const native = (draws: string) => weightsOf({ draws, agents: relayConfig().agents }, {});
const asApp = (draws: string) => {
  const { runner, agents } = appConfig();
  return weightsOf({ draws, runner, agents }, { runner: recipeRunner(relayApp) });
};

test("with draws named by tokens, the app and this program's own loop give the same rewards and weights", async () => {
  const trained = await native("tokens");
  expect(trained.status).toBe("finished");
  expect(new Set(trained.rewards).size).toBeGreaterThan(1);
  expect(await asApp("tokens")).toEqual(trained);
}, 120_000);

test("with draws named by place, the two give different weights", async () => {
  expect((await asApp("place")).weights).not.toEqual((await native("place")).weights);
}, 120_000);
