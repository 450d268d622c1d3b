/** @file A batch that arrives question by question, as groups are finalized, gives a toy policy the same update as the whole batch. */
import { expect, test } from "vitest";
import type { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { batchOf, toy } from "../fakes/toy-batch.ts";
import { toyConfig, toyOptimizer, trainAlone } from "./train-alone.ts";

const OPTIONS: Partial<AlgorithmConfig>[] = [
  {},
  { ratio: "sequence" },
  { ratio: "sequence-mean", aggregation: "token-mean" },
  { kl: { coefficient: 0.2, estimator: "k2" }, ratio: "sequence-mean" },
  { kl: { coefficient: 0.2, estimator: "k3" }, aggregation: "constant", constantTokens: 10 },
  { tisCap: 1.2, ratioMask: { low: 0.7, high: 1.4 } },
  { minibatches: 2 },
  { minibatches: 2, ratio: "sequence" },
];

test.each(OPTIONS.map((options) => [JSON.stringify(options), options] as const))(
  "a batch in parts gives the same update as the whole one, in one optimizer step per minibatch: %s",
  async (_name, options) => {
    const [whole, parts] = [toy(7), toy(7)];
    const batch = batchOf(8, whole, 1);
    async function* byQuestion() {
      yield [];
      for (const question of [0, 1]) yield batch.filter(({ group }) => group === question);
    }
    const one = await trainAlone(whole, [batch], toyConfig(options), toy(9));
    const two = await trainAlone(parts, byQuestion(), toyConfig(options), toy(9));
    parts.logits.forEach((logit, i) => {
      expect(logit).toBeCloseTo(whole.logits[i] ?? Number.NaN, 5);
    });
    for (const [name, value] of Object.entries(two.stats)) expect(value).toBeCloseTo(Object(one.stats)[name], 5);
    expect(parts.calls.filter((call) => call === "optimizerStep")).toHaveLength(options.minibatches ?? 1);
  },
);

test.each([1, 2])(
  "zero-variance questions count in the mean, alone or among others in a part (minibatches: %d)",
  async (minibatches) => {
    // With a learning rate near 0, all minibatches see the same weights.
    const config = { ...toyConfig({ minibatches }), optimizer: { ...toyOptimizer, learningRate: 1e-9 } };
    const batch = batchOf(1, toy(1), 0.5);
    const zeroVariance = (group: number) =>
      batch.filter((entry) => entry.group === 1).map((entry) => ({ ...entry, advantage: 0, group }));
    const normOf = async (...parts: (typeof batch)[]) => (await trainAlone(toy(1), parts, config)).stats.gradientNorm;
    const two = await normOf(batch);
    // The same gradients, as a mean over three questions, and over four.
    expect(await normOf(batch, zeroVariance(2))).toBeCloseTo((two * 2) / 3, 9);
    expect(await normOf([...batch, ...zeroVariance(2)])).toBeCloseTo((two * 2) / 3, 9);
    expect(await normOf([...zeroVariance(2), ...batch], zeroVariance(3))).toBeCloseTo((two * 2) / 4, 9);
  },
);
