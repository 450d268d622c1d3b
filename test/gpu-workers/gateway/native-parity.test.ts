/**
 * @file An app and this program's own loop, with the same tokens in: the same weights. Their draws have other names (docs/your-own-agents.md), so
 * here an engine names every draw after the tokens before it.
 */
import { expect, test } from "vitest";
import type { PolicyEngine } from "../../../core/ports.ts";
import { sha256 } from "../../../engine/hash.ts";
import { recipeRunner } from "../../../gpu-workers/gateway/runners.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import type { WorkerParts } from "../../../gpu-workers/worker-process.ts";
import { appConfig, relayApp } from "../../fixtures/relay/app.ts";
import { relayEngine } from "../../fixtures/relay/policy.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";
import { openRun, recordsOf, startWorker } from "../../fixtures/relay/world.ts";

/** The parts of a draw's name that both have: seed, purpose, step, group, rollout, agent. */
const SHARED = 6;

const namedByTokens: PolicyEngine = {
  ...relayEngine,
  async openSampler(files, options) {
    const sampler = await relayEngine.openSampler(files, options);
    return {
      ...sampler,
      sample: (request, signal) => {
        const stream = [...request.stream.slice(0, SHARED), sha256(request.tokens.join())];
        return sampler.sample({ ...request, stream }, signal);
      },
    };
  },
};

const settings = { steps: 2, rolloutsPerQuestion: 6, evaluation: { suites: [] } };

async function weightsOf(changes: object, parts: Partial<WorkerParts>) {
  const log = createLog(() => {});
  const { config, store } = await openRun(log, { ...changes, ...settings });
  const never = new AbortController().signal;
  const engine = { engineOf: () => namedByTokens };
  await Promise.all([
    startWorker(store, config.run, {}, never, log, { ...engine, ...parts }),
    startWorker(store, config.run, { agent: "searcher" }, never, log, engine),
  ]);
  const { status, weights, steps } = await recordsOf(store, config);
  const scores = steps.flatMap(({ groups }) => groups.flatMap(({ rollouts }) => Object.values(rollouts)));
  return { status, weights, rewards: scores.map((score) => ("excluded" in score ? score.excluded : score.reward)) };
}

test("the same tokens in, the same rewards and the same weights", async () => {
  const native = await weightsOf({ agents: relayConfig().agents }, {});
  expect(native.status).toBe("finished");
  expect(new Set(native.rewards).size).toBeGreaterThan(1);
  const { runner, agents } = appConfig();
  expect(await weightsOf({ runner, agents }, { runner: recipeRunner(relayApp) })).toEqual(native);
}, 120_000);
