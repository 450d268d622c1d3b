/** @file Prefix trees in training: every parameter's gradient, the loss and the log-probs match those of separate sequences up to rounding. */
import { expect, test } from "vitest";
import type { EngineOptions, Loss, TrainingSequence } from "../../core/ports.ts";
import { readAdapter } from "../../engine/checkpoint/adapter.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { planMicroBatches } from "../../engine/compiled/training/batch-plan.ts";
import { branchingRollouts } from "../fixtures/branching-rollouts.ts";
import { takeGradient } from "./take-gradient.ts";
import { BIASED, LAYERED, LORA, OPTIONS, TINY, tinyAdapter, tinyCheckpoint, UNTIED } from "./tiny.ts";

const CLIPPED: Loss = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 };
const LINEAR: Loss = { kind: "linear" };

async function passOf(files: Map<string, Uint8Array>, batch: TrainingSequence[], loss: Loss, options: EngineOptions) {
  const trainer = await compiledEngine.openTrainer(files, options);
  const scored = await trainer.logProbs(
    batch.map(({ tokens }) => tokens),
    0.9,
  );
  const pass = await trainer.forwardBackward(batch, loss, 0.9);
  return { ...pass, scored, gradient: await takeGradient(trainer) };
}

const largest = (values: Float32Array) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

test.each<[string, Map<string, Uint8Array>, Loss, Partial<EngineOptions>]>([
  ["all weights, clipped", tinyCheckpoint(TINY, 3), CLIPPED, {}],
  ["all weights, untied, biases, linear", tinyCheckpoint(BIASED, 3), LINEAR, {}],
  ["all weights, layer by layer, clipped", tinyCheckpoint(TINY, 3), CLIPPED, LAYERED],
  ["all weights, clipped, two lanes", tinyCheckpoint(TINY, 3), CLIPPED, { threads: 2 }],
  ["an adapter, clipped", tinyAdapter(TINY, LORA, 3), CLIPPED, {}],
  ["an adapter, linear, two lanes", tinyAdapter(UNTIED, LORA, 3), LINEAR, { threads: 2 }],
])("loss, log-probs and gradients match those of separate sequences: %s", async (_name, files, loss, more) => {
  const { config, layout } = parseCheckpoint(files);
  const { parameters } = readAdapter(files, config)?.layout ?? layout;
  const options = { ...OPTIONS, microBatchTokens: 256, ...more };
  const batch = branchingRollouts(config.vocabulary);
  const sequences = batch.map(({ tokens }) => tokens);
  const plan = planMicroBatches(sequences, () => 0, config, options);
  expect(plan.some(({ trees }) => trees)).toBe(true);
  const trees = await passOf(files, batch, loss, options);
  const separate = await passOf(files, batch, loss, { ...options, prefixTrees: false });
  // The bits differ, so trees were computed.
  expect(trees.gradient).not.toEqual(separate.gradient);
  expect(trees.loss).toBeCloseTo(separate.loss, 4);
  batch.forEach(({ tokens, weights_T }, i) => {
    tokens.forEach((_token, t) => {
      expect(trees.scored[i]?.[t], `${i}/${t}`).toBeCloseTo(separate.scored[i]?.[t] ?? Number.NaN, 4);
      if (weights_T[t] !== 0) expect(trees.logProbs[i]?.[t]).toBeCloseTo(separate.scored[i]?.[t] ?? Number.NaN, 4);
    });
  });
  for (const { name, offset, length } of parameters) {
    const [a, b] = [trees.gradient, separate.gradient].map((gradient) => gradient.subarray(offset, offset + length));
    const magnitude = largest(b as Float32Array);
    expect(magnitude, name).toBeGreaterThan(0);
    const difference = (a as Float32Array).map((value, i) => value - (b?.[i] ?? 0));
    expect(largest(difference) / magnitude, name).toBeLessThan(1e-5);
  }
});
