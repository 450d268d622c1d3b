/** @file The warning of a trainer whose log-probs differ from those of the sampler. */
import { expect, test } from "vitest";
import type { PolicyEngine } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { openRun, startWorker } from "../fixtures/relay/world.ts";

/** The relay's engine, whose sampler reports every log-prob too high by `shift`. */
const shifted = (shift: number): PolicyEngine => ({
  ...relayEngine,
  async openSampler(...given) {
    const sampler = await relayEngine.openSampler(...given);
    return {
      ...sampler,
      async sample(...request) {
        const sampled = await sampler.sample(...request);
        return { ...sampled, logProbs: sampled.logProbs.map((logProb) => logProb + shift) };
      },
    };
  },
});

const STALE = { staleness: 1, algorithm: { tisCap: 2 } };
test.each([
  ["by more than 0.001, each step has a warning", 2e-3, {}, [0, 1, 2, 3]],
  ["by less than 0.001, no step has a warning", 5e-4, {}, []],
  ["by more than 0.001, a step that is sampled from an older version has no warning", 2e-3, STALE, [0]],
])("if the ratio deviates from 1 %s", async (_what, shift, changes, warned) => {
  const lines: string[] = [];
  const log = createLog((line) => void lines.push(line));
  const { config, store } = await openRun(log, { steps: 4, ...changes });
  const never = new AbortController().signal;
  const start = (agent: string) =>
    startWorker(store, config.run, { agent }, never, log, { engineOf: () => shifted(shift) });
  await Promise.all([start("main"), start("searcher")]);
  const warnings = lines.map((line) => JSON.parse(line)).filter(({ what }) => what === "sampler and trainer disagree");
  expect(warnings.flatMap(({ agent, step }) => (agent === "main" ? step : []))).toEqual(warned);
});
