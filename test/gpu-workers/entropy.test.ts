/** @file The entropy bonus of a training step, on a toy policy whose distributions can be computed by hand. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { entropyCoefficientAt } from "../../core/training/entropy-schedule.ts";
import type { TrainingEntry } from "../../gpu-workers/training/train-step.ts";
import { batchOf, temperature, toy, VOCABULARY_SIZE } from "../fakes/toy-batch.ts";
import { ToyTrainer } from "../fakes/toy-trainer.ts";
import { trainAlone } from "./train-alone.ts";

const optimizer = OptimizerConfig.parse({ learningRate: 0.5, maxGradientNorm: 1e9 });
const configOf = (entropyCoefficient: number, options: object = {}) => ({
  ...{ optimizer, entropyCoefficient, temperature, minibatchStream: ["entropy"] },
  algorithm: AlgorithmConfig.parse({ entropy: { start: entropyCoefficient, end: 0 }, ...options }),
});

test("the coefficient changes linearly over the run", () => {
  const entropy = { start: 0.02, end: 0.01 };
  expect([0, 0.25, 0.5].map((progress) => entropyCoefficientAt(entropy, progress))).toEqual([0.02, 0.0175, 0.015]);
  expect(entropyCoefficientAt(null, 0.5)).toBe(0);
});

test("by hand, for a vocabulary of two tokens with p = 3/4 and 1/4: the loss is minus the bonus, and a step makes the policy more uniform", async () => {
  // Logits ln 3 and 0 at temperature 1: H = -(0.75 ln 0.75 + 0.25 ln 0.25) = 0.562335.
  const trainer = new ToyTrainer(2, [Math.log(3), 0, 0, 0]);
  const trajectory = {
    agent: "main",
    version: 0,
    tokens: [0, 0],
    actions: [[1, 2]] as [number, number][],
    logProbs: [Math.log(0.75)],
  };
  const entry: TrainingEntry = { trajectory, group: 0, groupStd: 0, advantage: 0, tokenWeight: 1 };
  const { trained, stats } = await trainAlone(trainer, [[entry]], { ...configOf(0.1), temperature: 1 });
  expect(trained).toBe(true);
  expect(stats.loss).toBeCloseTo(-0.1 * 0.562335, 6);
  // dH/dlogit = -p (ln p + H): -0.75 (-0.287682 + 0.562335) = -0.205990, and +0.205990. A step of 0.5 * 0.1 of that.
  expect(trainer.logits[0]).toBeCloseTo(Math.log(3) - 0.0102995, 6);
  expect(trainer.logits[1]).toBeCloseTo(0.0102995, 6);
});

test("while a bonus's scheduled coefficient is 0, a batch whose advantages are all 0 trains nothing", async () => {
  const trainer = toy(4);
  const config = { ...configOf(0), algorithm: AlgorithmConfig.parse({ entropy: { start: 0, end: 0.1 } }) };
  const batch = batchOf(6, trainer, 0).map((entry) => ({ ...entry, advantage: 0 }));
  const { trained } = await trainAlone(trainer, [batch], config);
  expect(trained).toBe(false);
  expect(trainer.calls).toEqual([]);
});

/** Sum over action tokens of weight * H, divided by the number of questions, 2. */
function meanEntropy(policy: ToyTrainer, batch: readonly TrainingEntry[]): number {
  const entropyAfter = (previous: number) => {
    const p = Array.from({ length: VOCABULARY_SIZE }, (_, token) =>
      Math.exp(policy.logProbsOf([previous, token], temperature)[1] ?? 0),
    );
    return -p.reduce((sum, one) => sum + one * Math.log(one), 0);
  };
  return batch.reduce((sum, { trajectory: { tokens, actions }, tokenWeight }) => {
    for (const [start, end] of actions)
      for (let t = start; t < end; t++) sum += (tokenWeight * entropyAfter(tokens[t - 1] ?? 0)) / 2;
    return sum;
  }, 0);
}

test.each<object>([{}, { policyLoss: { kind: "cispo" } }, { minibatches: 1, tisCap: 1.2 }])(
  "the bonus adds its own gradient to the objective's, by central differences: %o",
  async (options) => {
    const coefficient = 0.3;
    const [plain, bonus] = [toy(4), toy(4)];
    const start = [...plain.logits];
    const batch = batchOf(6, plain, 1);
    const one = await trainAlone(plain, [batch], {
      ...configOf(0, options),
      algorithm: AlgorithmConfig.parse(options),
    });
    const two = await trainAlone(bonus, [batch], configOf(coefficient, options));
    expect(bonus.calls).toContain("forwardBackward:linear-entropy");
    expect(two.stats.loss - one.stats.loss).toBeCloseTo(-coefficient * meanEntropy(toy(4), batch), 5);
    start.forEach((value, i) => {
      const at = (by: number) => meanEntropy(new ToyTrainer(VOCABULARY_SIZE, start.with(i, value + by)), batch);
      const slope = (at(1e-5) - at(-1e-5)) / 2e-5;
      const moved = ((bonus.logits[i] ?? 0) - (plain.logits[i] ?? 0)) / optimizer.learningRate;
      expect(moved).toBeCloseTo(coefficient * slope, 4);
    });
  },
);
