/** @file Several optimizer steps per batch, and advantages scaled over the whole batch, on a toy policy. */
import { describe, expect, test } from "vitest";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { batchOf, toy, VOCABULARY_SIZE } from "../fakes/toy-batch.ts";
import { ToyTrainer } from "../fakes/toy-trainer.ts";
import { toyConfig, toyOptimizer, trainAlone } from "./train-alone.ts";

describe("minibatches", () => {
  test("each takes one optimizer step, deterministically; the reported ratio deviation is the one before the first step", async () => {
    for (const options of [{}, { tisCap: 2 }]) {
      const [one, two] = [toy(3), toy(3)];
      const batch = batchOf(3, one, 0, options);
      const { stats } = await trainAlone(one, [batch], toyConfig({ ...options, minibatches: 2 }));
      await trainAlone(two, [batch], toyConfig({ ...options, minibatches: 2 }));
      expect(one.calls.filter((call) => call === "optimizerStep")).toHaveLength(2);
      expect(two.logits).toEqual(one.logits);
      expect(stats.maxRatioDeviation).toBeLessThan(1e-6);
    }
  });

  test("their gradients average to the gradient of the whole batch", async () => {
    // With a learning rate near 0, both steps see almost the same weights.
    const slow = { ...toyConfig(), optimizer: { ...toyOptimizer, learningRate: 1e-6 } };
    const [whole, split] = [toy(3), toy(3)];
    const start = [...whole.logits];
    const batch = batchOf(3, whole, 0.5);
    await trainAlone(whole, [batch], slow);
    await trainAlone(split, [batch], { ...slow, algorithm: AlgorithmConfig.parse({ minibatches: 2 }) });
    start.forEach((value, i) => {
      const [once, twice] = [value - (whole.logits[i] ?? 0), value - (split.logits[i] ?? 0)];
      expect(twice / 2 / 1e-6).toBeCloseTo(once / 1e-6, 4);
    });
  });

  test("the random stream decides which trajectories share a minibatch; with only one, it has no effect", async () => {
    const updates = async (minibatches: number) => {
      const results = new Set<string>();
      for (let step = 0; step < 8; step++) {
        const trainer = toy(3);
        await trainAlone(trainer, [batchOf(3, trainer, 0)], {
          ...toyConfig({ minibatches }),
          minibatchStream: [1, "minibatches", step],
        });
        results.add(JSON.stringify(trainer.logits));
      }
      return results.size;
    };
    expect(await updates(1)).toBe(1);
    expect(await updates(2)).toBeGreaterThan(1);
  });

  test("there are no more of them than trajectories with a gradient", async () => {
    const trainer = toy(3);
    await trainAlone(trainer, [batchOf(3, trainer, 0)], toyConfig({ minibatches: 50 }));
    expect(trainer.calls.filter((call) => call === "optimizerStep")).toHaveLength(4);
  });
});

test("advantageScale batch divides all advantages by the batch's standard deviation, whether the batch arrives whole or in parts", async () => {
  // The two groups have standard deviations 0.3 and 0.4: sqrt((0.09 + 0.16)/2) = 0.353553.
  const scale = 1 / (Math.sqrt(0.125) + 1e-6);
  const [direct, whole, parts] = [toy(3), toy(3), toy(3)];
  const batch = batchOf(3, direct, 0.5);
  const scaled = batch.map((entry) => ({ ...entry, advantage: entry.advantage * scale }));
  await trainAlone(direct, [scaled], toyConfig());
  await trainAlone(whole, [batch], toyConfig({ advantageScale: "batch" }));
  const ofGroup = (group: number) => batch.filter((entry) => entry.group === group);
  await trainAlone(parts, [ofGroup(0), ofGroup(1)], toyConfig({ advantageScale: "batch" }));
  direct.logits.forEach((value, i) => {
    expect(whole.logits[i]).toBeCloseTo(value, 6);
    expect(parts.logits[i]).toBeCloseTo(value, 6);
  });
});

describe("epochs", () => {
  test("two epochs take two steps on the same batch: the second's ratio is relative to the sampler, not to the first step", async () => {
    const [epochs, steps] = [toy(3), toy(3)];
    const batch = batchOf(3, epochs, 0);
    const { stats } = await trainAlone(epochs, [batch], toyConfig({ epochs: 2 }));
    const first = await trainAlone(steps, [batch], toyConfig());
    const second = await trainAlone(steps, [batch], toyConfig());
    expect(epochs.logits).toEqual(steps.logits);
    expect(stats.loss).toBeCloseTo((first.stats.loss + second.stats.loss) / 2, 9);
    expect(stats.gradientNorm).toBeCloseTo((first.stats.gradientNorm + second.stats.gradientNorm) / 2, 9);
    expect(second.stats.maxRatioDeviation).toBeGreaterThan(0.01);
    expect(stats.maxRatioDeviation).toBeLessThan(1e-6);
  });

  test("with tisCap, the proximal policy is the one before the first epoch", async () => {
    const trainer = toy(3);
    const batch = batchOf(3, trainer, 0);
    // A huge first step moves the policy. In the second epoch, ratios are relative to the policy before that step, and many of them are clipped.
    const { stats } = await trainAlone(trainer, [batch], {
      ...toyConfig({ tisCap: 2, epochs: 2 }),
      optimizer: { ...toyOptimizer, learningRate: 50 },
    });
    expect(stats.clipFraction).toBeGreaterThan(0.1);
    // One for the proximal policy, which is also the current one of the first epoch, and one for the second epoch.
    expect(trainer.calls.filter((call) => call === "logProbs")).toHaveLength(2);
  });

  test("each epoch shuffles its own minibatches; the first epoch's are those of a run with one epoch", async () => {
    class Recorder extends ToyTrainer {
      readonly minibatches: number[][] = [];
      override forwardBackward(...[batch, loss, at]: Parameters<ToyTrainer["forwardBackward"]>) {
        this.minibatches.push(batch.map(({ tokens }) => tokens.length * 100 + (tokens[0] ?? 0)));
        return super.forwardBackward(batch, loss, at);
      }
    }
    const minibatchesOf = async (epochs: number, step: number) => {
      const recorder = new Recorder(VOCABULARY_SIZE, toy(3).logits);
      await trainAlone(recorder, [batchOf(3, toy(3), 0)], {
        ...toyConfig({ minibatches: 2, epochs }),
        minibatchStream: [1, step],
      });
      return recorder.minibatches;
    };
    let differing = 0;
    for (let step = 0; step < 10; step++) {
      const [one, three] = [await minibatchesOf(1, step), await minibatchesOf(3, step)];
      expect(three).toHaveLength(6);
      expect(three.slice(0, 2)).toEqual(one);
      if (JSON.stringify(three.slice(2, 4)) !== JSON.stringify(three.slice(4))) differing++;
    }
    expect(differing).toBeGreaterThan(0);
  });
});
