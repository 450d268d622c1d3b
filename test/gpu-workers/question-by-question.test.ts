/** @file A batch that arrives question by question, as groups are finalized, gives a toy policy the same update as the whole batch. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { trainStep } from "../../gpu-workers/training/train-step.ts";
import { batchOf, temperature, toy } from "../fakes/toy-batch.ts";

const optimizer = OptimizerConfig.parse({ learningRate: 0.5, maxGradientNorm: 1e9 });
const configOf = (options: Partial<AlgorithmConfig> = {}) => ({
  algorithm: AlgorithmConfig.parse(options),
  optimizer,
  temperature,
});

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
  "the same update, in one optimizer step per minibatch: %s",
  async (_name, options) => {
    const [whole, parts] = [toy(7), toy(7)];
    const batch = batchOf(8, whole, 1);
    async function* byQuestion() {
      yield [];
      for (const question of [0, 1]) yield batch.filter(({ group }) => group === question);
    }
    const one = await trainStep(whole, [batch], configOf(options), toy(9));
    const two = await trainStep(parts, byQuestion(), configOf(options), toy(9));
    parts.logits.forEach((logit, i) => {
      expect(logit).toBeCloseTo(whole.logits[i] ?? Number.NaN, 5);
    });
    for (const [name, value] of Object.entries(two.stats)) expect(value).toBeCloseTo(Object(one.stats)[name], 5);
    expect(parts.calls.filter((call) => call === "optimizerStep")).toHaveLength(options.minibatches ?? 1);
  },
);

test("a zero-variance question still counts in the mean", async () => {
  const [one, two] = [toy(1), toy(1)];
  const batch = batchOf(1, one, 0.5);
  const zeroVariance = batch.filter(({ group }) => group === 1).map((entry) => ({ ...entry, advantage: 0, group: 2 }));
  const first = await trainStep(one, [batch], configOf());
  const second = await trainStep(two, [batch, zeroVariance], configOf());
  expect(second.stats.gradientNorm).toBeCloseTo((first.stats.gradientNorm * 2) / 3, 9);
});
