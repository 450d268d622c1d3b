/** @file The probe finds what a server does, however far a step moves its model: the log-probs of an LLM fall if every weight moves by 0.01. */
import { expect, test } from "vitest";
import type { PolicyEngine } from "../../../core/ports.ts";
import { openEngine } from "../../../engine/index.ts";
import { openTinkerClient } from "../../../engine/tinker/client/client.ts";
import { probeServer } from "../../../engine/tinker/probe.ts";
import { HOSTED, SKYRL_JAX } from "../../fakes/tinker-models.ts";
import { FakeTinker } from "../../fakes/tinker-server.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "../tiny.ts";

/** A tiny model whose steps are `factor` times as long, so that they change it as much as they change a model with many more weights. */
async function scaledEngine(factor: number): Promise<PolicyEngine> {
  const engine = await openEngine("compiled");
  return {
    openSampler: (...options) => engine.openSampler(...options),
    async openTrainer(...options) {
      const trainer = await engine.openTrainer(...options);
      return {
        logProbs: (...given) => trainer.logProbs(...given),
        forwardBackward: (...given) => trainer.forwardBackward(...given),
        optimizerStep: (config, scale) =>
          trainer.optimizerStep({ ...config, learningRate: factor * config.learningRate }, scale),
        save: () => trainer.save(),
        load: (files) => trainer.load(files),
        close: () => trainer.close(),
      };
    },
  };
}

test.each([1, 100, 300])("steps that are %d times as long", async (factor) => {
  for (const rules of [HOSTED, SKYRL_JAX]) {
    const server = new FakeTinker({
      engine: await scaledEngine(factor),
      files: tinyCheckpoint(),
      options: OPTIONS,
      rules,
    });
    const client = openTinkerClient({ baseUrl: "http://127.0.0.1:9", fetch: server.fetch, pauseSeconds: 0.001 });
    const session = await client.openSession();
    const model = await session.createModel("tiny-qwen3", { rank: 8, seed: 1 });
    expect(await probeServer(client, model, TINY.vocabulary)).toMatchObject({
      ...{ overTokens: rules.reduction, overSequences: rules.reduction, clips: rules.clips, remembersCalls: true },
      optimizer: { followsEpsilon: true, followsBeta1: true },
    });
    session.close();
  }
});
