/**
 * @file The client and the engine against the real server at MGRPO_TINKER_URL. MGRPO_TINKER_MODEL names the model, by default the
 * first that the server lists. TINKER_API_KEY is sent if it is set. Only tokens below 30 are sent, so any vocabulary will do.
 */
import { describe, expect, test } from "vitest";
import { describeOptimizer } from "../../../core/contracts/server-optimizer.ts";
import type { PolicyEngine, Trainer } from "../../../core/ports.ts";
import { openTinkerClient } from "../../../engine/tinker/client/client.ts";
import { tinkerEngine } from "../../../engine/tinker/engine.ts";
import { tinkerBase } from "../../../engine/tinker/version.ts";
import { callJournal } from "../../../gpu-workers/training/call-journal.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { OPTIONS } from "../tiny.ts";

const url = process.env["MGRPO_TINKER_URL"];
if (url === undefined) console.log("live Tinker server: skipped, MGRPO_TINKER_URL is not set");

const baseUrl = url ?? "";
const apiKey = process.env["TINKER_API_KEY"];
const config = new TextEncoder().encode(JSON.stringify({ vocab_size: 30 }));

async function open() {
  const { supported_models: models } = await openTinkerClient({ baseUrl, apiKey }).capabilities();
  const name = process.env["MGRPO_TINKER_MODEL"] ?? models[0]?.model_name ?? "";
  const policy = `tinker:${baseUrl}#${encodeURIComponent(name)}`;
  const files = tinkerBase(policy, "any", new Map([["config.json", config]]), [1, "live"], 8);
  return { engine: tinkerEngine(policy, { apiKey }), files };
}

const lesson = [1, 12, 5, 5, 23, 8, 2];
const sequence = { tokens: lesson, weights_T: Float32Array.from(lesson, () => -1 / 6) };
const adam = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: null };
const step = async (trainer: Trainer) => {
  const { loss } = await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
  return { loss, ...(await trainer.optimizerStep(adam)) };
};

describe.skipIf(url === undefined)("a live server", { timeout: 600_000 }, () => {
  test("is probed, trains, saves, is sampled from, and continues from the saved weights", async () => {
    const { engine, files } = await open();
    const trainer = await engine.openTrainer(files, OPTIONS);
    const first = await step(trainer);
    const saved = new Map([...files, ...(await trainer.save())]);
    const second = await step(trainer);
    expect(second.loss).toBeLessThan(first.loss);

    const sampler = await engine.openSampler(saved, OPTIONS);
    const request = { tokens: lesson.slice(0, 3), maxTokens: 4, stop: [], stream: ["live"] };
    const sampling = { temperature: 1, topP: 1, topK: 0 };
    const sample = await sampler.sample({ ...request, sequence: "s", sampling });
    expect(sample.tokens).toHaveLength(4);

    await trainer.load(saved);
    const resumed = await step(trainer);
    expect(resumed.loss).toBeCloseTo(second.loss, 3);
    expect(resumed.gradientNorm).toBeCloseTo(second.gradientNorm, 2);
    await Promise.all([trainer.close(), sampler.close()]);
  });

  test("trains with the server's own optimizer, if that is declared", async () => {
    const { engine, files } = await open();
    const trainer = await engine.openTrainer(files, { ...OPTIONS, serverOptimizer: true });
    if (trainer.optimizerProbe) console.log(describeOptimizer(trainer.optimizerProbe));
    const learn = async () => {
      const { loss } = await trainer.forwardBackward([sequence], { kind: "linear" }, 1);
      return { loss, ...(await trainer.optimizerStep({ kind: "server", learningRate: 0.01 })) };
    };
    const first = await learn();
    expect((await learn()).loss).toBeLessThan(first.loss);
    await trainer.close();
  });

  test("answers a successor's repeated calls with the results of the dead process's calls", async () => {
    const { engine, files } = await open();
    const store = memoryStore();
    const start = (worker: string, on: PolicyEngine) =>
      on.openTrainer(files, OPTIONS, callJournal({ name: "live", store }, "main", worker));
    const alone = await start("alone", engine);
    const expected = [await step(alone), await step(alone)];
    await alone.close();

    const first = await step(await start("dead", engine));
    const successor = await start("successor", (await open()).engine);
    expect(await step(successor)).toEqual(first);
    const second = await step(successor);
    expect(second.loss).toBeCloseTo(expected[1]?.loss ?? 0, 3);
    await successor.close();
  });
});
