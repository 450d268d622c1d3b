/** @file AdamW: a case worked by hand, and parameters without weight decay. */
import { expect, test } from "vitest";
import type { CheckpointFiles, Trainer } from "../../core/ports.ts";
import { freshAdamState } from "../../engine/checkpoint/adam-state.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { MODEL_FILE } from "../../engine/checkpoint/tensors.ts";
import { writeModel } from "../../engine/checkpoint/weights.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openBackend } from "../../engine/eager/backend.ts";
import { openEagerTrainer } from "../../engine/eager/trainer.ts";
import { adamStep } from "../../engine/model/adamw.ts";
import { readSafetensors } from "./read-safetensors.ts";
import { OPTIONS, tinyCheckpoint, UNTIED } from "./tiny.ts";

const CONFIG = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.5, maxGradientNorm: 1 };

test("two steps, of which the first is clipped, give the weights worked out by hand", () => {
  const weights = Float32Array.of(1, -2);
  const state = freshAdamState(2);
  // |(3, -4)| = 5, clipped to norm 1: g = (0.6, -0.8). m = 0.1 g, v = 0.01 g^2; the corrections give back g and g^2:
  // w = w - 0.1 (sign(g) + 0.5 w) = (1 - 0.1 - 0.05, -2 + 0.1 + 0.1)
  expect(adamStep(weights, Float32Array.of(3, -4), state, CONFIG)).toBe(5);
  expect(weights[0]).toBeCloseTo(0.85, 6);
  expect(weights[1]).toBeCloseTo(-1.8, 6);
  // g = (0.6, 0): m = (0.054 + 0.06, -0.072) = (0.114, -0.072), v = (0.003564 + 0.0036, 0.006336) = (0.007164, 0.006336)
  // corrections 1 - 0.81 = 0.19 and 1 - 0.9801 = 0.0199
  // update = (0.6 / sqrt(0.36), -0.378947.. / sqrt(0.318392..)) = (1, -0.671580..)
  // w = (0.85 - 0.1 (1 + 0.425), -1.8 - 0.1 (-0.671580 - 0.9))
  expect(adamStep(weights, Float32Array.of(0.6, 0), state, CONFIG)).toBeCloseTo(0.6, 6);
  expect(weights[0]).toBeCloseTo(0.7075, 5);
  expect(weights[1]).toBeCloseTo(-1.642842, 5);
  expect(state.step).toBe(2);
});

test("a negative scale reverses the step, clipped by the same norm", () => {
  const run = (gradient: Float32Array, scale: number) => {
    const [weights, state] = [Float32Array.of(1, -2), freshAdamState(2)];
    return [adamStep(weights, gradient, state, CONFIG, scale), [...weights], state];
  };
  const [norm, ...updated] = run(Float32Array.of(3, -4), -2);
  // |(-6, 8)| = 10
  expect(norm).toBe(10);
  expect(updated).toEqual(run(Float32Array.of(-3, 4), 2).slice(1));
});

test("a range excluded from decay gets the same update without the decay; its neighbors still decay", () => {
  const run = (config: typeof CONFIG, undecayed: { offset: number; length: number }[]) => {
    const weights = Float32Array.of(1, -2, 3, 4);
    adamStep(weights, Float32Array.of(0.1, -0.2, 0.3, 0.4), freshAdamState(4), config, 1, undecayed);
    return [...weights];
  };
  const [all, none] = [run(CONFIG, []), run({ ...CONFIG, weightDecay: 0 }, [])];
  // Decay takes 0.1 * 0.5 of each weight.
  expect(none.map((value, i) => value - (all[i] ?? 0))).toEqual(
    [0.05, -0.1, 0.15, 0.2].map((x) => expect.closeTo(x, 6)),
  );
  expect(run(CONFIG, [{ offset: 1, length: 2 }])).toEqual([all[0], none[1], none[2], all[3]]);
});

const tensorsOf = (files: CheckpointFiles) => readSafetensors(files.get(MODEL_FILE) as Uint8Array, "model").tensors;

test.each<[string, (files: CheckpointFiles) => Promise<Trainer>]>([
  ["compiled", (files) => compiledEngine.openTrainer(files, OPTIONS)],
  ["eager", async (files) => openEagerTrainer(files, OPTIONS, "cpu")],
])("%s: decayed = 'matrices' does not decay norms and biases", async (_name, open) => {
  await openBackend("cpu");
  const model = { ...UNTIED, queryKeyNorm: false, projectionBias: true };
  // Biases start at 0, where decay would not show.
  const weights = initializeWeights(model, 1).map((value) => (value === 0 ? 0.5 : value));
  const files = tinyCheckpoint(model).set(MODEL_FILE, writeModel(parameterLayout(model), weights));
  const trainer = await open(files);
  // Without a gradient, a step is the decay alone: 1 - 0.1 * 0.5 = 0.95.
  await trainer.optimizerStep({ ...CONFIG, decayed: "matrices" });
  const [before, after] = [tensorsOf(files), tensorsOf(await trainer.save())];
  await trainer.close();
  expect(before.get("model.layers.0.self_attn.q_proj.bias")?.values[0]).toBe(0.5);
  const factors = new Map<string, number>();
  for (const [name, { shape, values }] of before) {
    const factor = shape.length === 1 ? 1 : 0.95;
    factors.set(name, factor);
    values.forEach((value, i) => {
      expect(after.get(name)?.values[i], name).toBeCloseTo(value * factor, 6);
    });
  }
  expect(factors.get("model.norm.weight")).toBe(1);
  expect(factors.get("model.layers.0.self_attn.q_proj.bias")).toBe(1);
  expect(factors.get("model.embed_tokens.weight")).toBe(0.95);
});
