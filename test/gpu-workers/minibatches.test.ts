/** @file Several optimizer steps per batch, on a toy policy. */
import { describe, expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { trainStep } from "../../gpu-workers/training/train-step.ts";
import { batchOf, temperature, toy } from "../fakes/toy-batch.ts";

const optimizer = OptimizerConfig.parse({ learningRate: 0.5, maxGradientNorm: 1e9 });
const algorithmOf = (options: Partial<AlgorithmConfig> = {}) => AlgorithmConfig.parse(options);
const configOf = (options: Partial<AlgorithmConfig> = {}) => ({
  algorithm: algorithmOf(options),
  optimizer,
  temperature,
  draws: ["minibatches"],
});

describe("minibatches", () => {
  test("each takes an optimizer step, deterministically, and the reported ratio is that before the first", async () => {
    for (const options of [{}, { tisCap: 2 }]) {
      const [one, two] = [toy(3), toy(3)];
      const batch = batchOf(3, one, 0, options);
      const { stats } = await trainStep(one, [batch], configOf({ ...options, minibatches: 2 }));
      await trainStep(two, [batch], configOf({ ...options, minibatches: 2 }));
      expect(one.calls.filter((call) => call === "optimizerStep")).toHaveLength(2);
      expect(two.logits).toEqual(one.logits);
      expect(stats.maxRatioDeviation).toBeLessThan(1e-6);
    }
  });

  test("their gradients average to the gradient of the whole batch", async () => {
    // With a learning rate near 0 both steps see the same weights.
    const slow = { ...configOf(), optimizer: { ...optimizer, learningRate: 1e-6 } };
    const [whole, split] = [toy(3), toy(3)];
    const start = [...whole.logits];
    const batch = batchOf(3, whole, 0.5);
    await trainStep(whole, [batch], slow);
    await trainStep(split, [batch], { ...slow, algorithm: algorithmOf({ minibatches: 2 }) });
    start.forEach((value, i) => {
      const [once, twice] = [value - (whole.logits[i] ?? 0), value - (split.logits[i] ?? 0)];
      expect(twice / 2 / 1e-6).toBeCloseTo(once / 1e-6, 4);
    });
  });

  test("the stream's name deals the trajectories; with one minibatch it changes nothing", async () => {
    const updates = async (minibatches: number) => {
      const results = new Set<string>();
      for (let step = 0; step < 8; step++) {
        const trainer = toy(3);
        await trainStep(trainer, [batchOf(3, trainer, 0)], {
          ...configOf({ minibatches }),
          draws: [1, "minibatches", step],
        });
        results.add(JSON.stringify(trainer.logits));
      }
      return results.size;
    };
    expect(await updates(1)).toBe(1);
    expect(await updates(2)).toBeGreaterThan(1);
  });

  test("more minibatches than trajectories with a gradient: one each", async () => {
    const trainer = toy(3);
    await trainStep(trainer, [batchOf(3, trainer, 0)], configOf({ minibatches: 50 }));
    expect(trainer.calls.filter((call) => call === "optimizerStep")).toHaveLength(4);
  });
});

test("advantageScale batch: the whole batch is divided by one standard deviation, however it arrives", async () => {
  // Groups of the batch have standard deviations 0.3 and 0.4: sqrt((0.09 + 0.16)/2) = 0.353553.
  const scale = 1 / (Math.sqrt(0.125) + 1e-6);
  const [direct, whole, parts] = [toy(3), toy(3), toy(3)];
  const batch = batchOf(3, direct, 0.5);
  const scaled = batch.map((entry) => ({ ...entry, advantage: entry.advantage * scale }));
  await trainStep(direct, [scaled], configOf());
  await trainStep(whole, [batch], configOf({ advantageScale: "batch" }));
  const ofGroup = (group: number) => batch.filter((entry) => entry.group === group);
  await trainStep(parts, [ofGroup(0), ofGroup(1)], configOf({ advantageScale: "batch" }));
  direct.logits.forEach((value, i) => {
    expect(whole.logits[i]).toBeCloseTo(value, 6);
    expect(parts.logits[i]).toBeCloseTo(value, 6);
  });
});
