/**
 * @file The gradient of every trained parameter, for each loss: every entry equals the eager engine's, and the steepest entry equals a central
 * difference. Micro-batches, and the chunks of rows in the head, change gradients by rounding only.
 */
import { expect, test } from "vitest";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { EngineOptions, Loss, Trainer, TrainingSequence } from "../../core/ports.ts";
import { ADAPTER_FILE, readAdapter } from "../../engine/checkpoint/adapter.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openBackend } from "../../engine/eager/backend.ts";
import { openEagerTrainer } from "../../engine/eager/trainer.ts";
import { takeGradient } from "./take-gradient.ts";
import { BIASED, LAYERED, LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "./tiny.ts";

const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };
const ENTROPY: Loss = { kind: "linear-entropy" };
const TEMPERATURE = 0.9;

const batch: TrainingSequence[] = [
  [3, 1, 4, 1, 5, 9, 2, 6],
  [5, 3, 5, 8],
  [31, 36, 0, 3, 3],
].map((tokens, i) => ({
  tokens,
  weights_T: Float32Array.from(tokens, (_, t) => (t < 2 ? 0 : 0.1 * (t + i))),
  advantages_T: Float32Array.from(tokens, (_, t) => ((t + i) % 2 ? 1.5 : -0.7)),
  behaviorLogProbs_T: Float32Array.from(tokens, (_, t) => -3.5 - 0.3 * t),
  entropyWeights_T: Float32Array.from(tokens, (_, t) => (t < 2 ? 0 : 2 - 0.2 * t)),
}));

async function gradientOf(trainer: Trainer, loss: Loss): Promise<Float32Array> {
  await trainer.forwardBackward(batch, loss, TEMPERATURE);
  return takeGradient(trainer);
}

const LARGE_VOCABULARY: ModelConfig = { ...UNTIED, width: 4, headWidth: 2, ffnWidth: 4, vocabulary: 300_000 };
const SOME: LoraConfig = { rank: 2, alpha: 1, targets: ["k_proj", "up_proj"] };

test.each<[string, ModelConfig, LoraConfig | null, Loss, Partial<EngineOptions>]>([
  ["tied, clipped", TINY, null, CLIPPED, {}],
  ["untied, clipped", UNTIED, null, CLIPPED, {}],
  ["tied, linear", TINY, null, { kind: "linear" }, {}],
  ["tied, clipped, two lanes", TINY, null, CLIPPED, { threads: 2 }],
  ["tied, clipped, layer by layer", TINY, null, CLIPPED, LAYERED],
  [
    "untied, with biases, linear, layer by layer, two lanes",
    BIASED,
    null,
    { kind: "linear" },
    { ...LAYERED, threads: 2 },
  ],
  ["an adapter on every projection, clipped", TINY, LORA, CLIPPED, {}],
  ["tied, entropy", TINY, null, ENTROPY, {}],
  ["untied, entropy, layer by layer, two lanes", UNTIED, null, ENTROPY, { ...LAYERED, threads: 2 }],
  ["an adapter on every projection, entropy", TINY, LORA, ENTROPY, {}],
  ["an adapter on two projections, with biases, linear, two lanes", BIASED, SOME, { kind: "linear" }, { threads: 2 }],
])("compiled gradients equal eager ones and central differences: %s", async (_name, config, lora, loss, options) => {
  await openBackend("cpu");
  const files = lora ? tinyAdapter(config, lora, 3) : tinyCheckpoint(config, 3);
  const compiled = await gradientOf(await compiledEngine.openTrainer(files, { ...OPTIONS, ...options }), loss);
  const eager = await gradientOf(openEagerTrainer(files, OPTIONS, "cpu"), loss);
  const { layout, weights } = readAdapter(files, config) ?? parseCheckpoint(files);
  const trained = lora ? ADAPTER_FILE : MODEL_FILE;
  const probe = await compiledEngine.openTrainer(files, OPTIONS);
  const lossAt = async (index: number, delta: number) => {
    const moved = weights.slice();
    moved[index] = (moved[index] ?? 0) + delta;
    await probe.load(new Map([...files, [trained, writeModel(layout, moved)]]));
    return (await probe.forwardBackward(batch, loss, TEMPERATURE)).loss;
  };
  for (const { name, offset, length } of layout.parameters) {
    let size = 0;
    for (let i = offset; i < offset + length; i++) size = Math.max(size, Math.abs(eager[i] ?? 0));
    expect(size, name).toBeGreaterThan(0);
    for (let i = offset; i < offset + length; i++) {
      expect(Math.abs((compiled[i] ?? 0) - (eager[i] ?? 0)), `${name}[${i - offset}]`).toBeLessThan(1e-5 + 1e-4 * size);
    }
    // The steepest entry of each parameter, against the loss itself.
    const part = compiled.subarray(offset, offset + length);
    const steepest = offset + part.reduce((best, g, i) => (Math.abs(g) > Math.abs(part[best] ?? 0) ? i : best), 0);
    const step = 2e-3;
    const slope = ((await lossAt(steepest, step)) - (await lossAt(steepest, -step))) / (2 * step);
    expect(Math.abs(slope - (compiled[steepest] ?? 0)), name).toBeLessThan(0.02 * Math.abs(slope) + 2e-3);
  }
  await probe.close();
});

test.each([
  ["all weights", tinyCheckpoint()],
  ["an adapter", tinyAdapter()],
])("micro-batches change gradients by rounding only: %s", async (_name, files) => {
  const at = async (microBatchTokens: number) =>
    gradientOf(await compiledEngine.openTrainer(files, { ...OPTIONS, microBatchTokens }), CLIPPED);
  const [a, b] = [await at(1024), await at(16)];
  a.forEach((value, i) => {
    expect(Math.abs(value - (b[i] ?? 0))).toBeLessThan(1e-5);
  });
});

test.each([
  ["an adapter's", tinyAdapter(LARGE_VOCABULARY, LORA, 2), 4096],
  ["all weights'", tinyCheckpoint(LARGE_VOCABULARY, 2), LAYERED.microBatchTokens ?? 0],
])(
  "a vocabulary so large that the head processes rows in chunks changes %s gradient by rounding only",
  async (_name, files, microBatchTokens) => {
    // 64 MiB hold 55 such rows: a micro-batch of 4 x 29 predictions takes three chunks, one sequence alone takes one.
    const long = Array.from({ length: 4 }, (_, i) => ({
      tokens: Array.from({ length: 30 }, (_x, t) => (7919 * (t + 30 * i)) % LARGE_VOCABULARY.vocabulary),
      weights_T: Float32Array.from({ length: 30 }, (_x, t) => (t % 3) - 0.5),
    }));
    const at = async (batches: readonly (typeof long)[]) => {
      const trainer = await compiledEngine.openTrainer(files, { ...OPTIONS, microBatchTokens });
      const logProbs: Float32Array[] = [];
      for (const batch of batches) {
        const pass = await trainer.forwardBackward(batch, { kind: "linear" }, 1);
        const tokens = batch.map((sequence) => sequence.tokens);
        expect(await trainer.logProbs(tokens, 1)).toEqual(pass.logProbs);
        logProbs.push(...pass.logProbs);
      }
      return { logProbs, gradient: await takeGradient(trainer) };
    };
    const [together, separate] = [await at([long]), await at(long.map((sequence) => [sequence]))];
    together.logProbs.forEach((row, i) => {
      row.forEach((value, t) => {
        expect(separate.logProbs[i]?.[t]).toBeCloseTo(value, 4);
      });
    });
    const largest = (values: Float32Array) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const size = largest(together.gradient);
    expect(size).toBeGreaterThan(0.01);
    const difference = together.gradient.map((value, i) => value - (separate.gradient[i] ?? 0));
    expect(largest(difference)).toBeLessThan(1e-4 * size);
  },
);
