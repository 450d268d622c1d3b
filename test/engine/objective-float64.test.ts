/**
 * @file In double precision, the eager engine's gradients equal central differences over the model's parameters for two losses: the objective,
 * whose derivatives by log-prob, from core, are the coefficients of a linear loss; and the linear-entropy loss.
 */
import * as tf from "@tensorflow/tfjs-core";
import { beforeAll, expect, test, vi } from "vitest";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { trajectoryLoss } from "../../core/mgrpo/loss.ts";
import { gather, scatter } from "../../core/mgrpo/tokens.ts";
import { stream } from "../../core/random.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { parameterLayout, views } from "../../engine/checkpoint/parameters.ts";
import { openBackend } from "../../engine/eager/backend.ts";
import { distributions, treeStates, weightTensors } from "../../engine/eager/model.ts";
import { lossRows } from "../../engine/eager/trainer.ts";
import { entropies, entropyLoss, loss as lossOf, targetLogProbs } from "../../engine/model/losses.ts";
import { EVERY_PREDICTION, entropyVectors, lossVectors, predictions } from "../../engine/model/predictions.ts";
import { prefixTree } from "../../engine/model/prefix-tree.ts";
import { predictedLogProbs } from "./predicted-log-probs.ts";
import { TINY } from "./tiny.ts";

vi.hoisted(() => {
  Object.assign(globalThis, { Float32Array: Float64Array });
});

beforeAll(async () => {
  Object.assign(tf.env().platform, { isTypedArray: ArrayBuffer.isView });
  await openBackend("cpu");
});

const LAYOUT = parameterLayout(TINY);
const NAMES = LAYOUT.parameters.map(({ name }) => name);
const TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
const POSITIONS_A = [2, 3, 4, 6, 7, 8, 9];
const TREE = prefixTree([TOKENS]);
const WANTED = predictions([0], [TOKENS], (_i, t) => t, EVERY_PREDICTION);

/** [T - 1]: log-probs of the tokens after the first, under a model with these weights. */
function logProbsOf(parameters: Record<string, tf.Tensor>): tf.Tensor1D {
  return predictedLogProbs(TINY, parameters, treeStates(TINY, parameters, TREE, null), WANTED, 0.9);
}

const currentOf = (weights: Float32Array): number[] =>
  tf.tidy(() => gather([0, ...logProbsOf(weightTensors(LAYOUT, weights)).dataSync()], POSITIONS_A));

/** The gradient of sum weights_T * logProb with respect to each parameter. */
function linearGradient(weights: Float32Array, weights_T: Float32Array): Map<string, ArrayLike<number>> {
  const rows = lossRows(lossVectors(WANTED, [{ tokens: TOKENS, weights_T }], { kind: "linear" }), { kind: "linear" });
  const { grads } = tf.valueAndGrads((...values) => {
    const parameters = Object.fromEntries(values.map((tensor, i) => [NAMES[i] ?? "", tensor]));
    return lossOf(logProbsOf(parameters), rows);
  })(Object.values(weightTensors(LAYOUT, weights)));
  return new Map(grads.map((gradient, i) => [NAMES[i] ?? "", gradient.dataSync()]));
}

test.each<[object, number]>([
  [{ policyLoss: { kind: "dual-clip", c: 2 } }, -1.3],
  [{ policyLoss: { kind: "dual-clip", c: 2 }, kl: { coefficient: 0.2 }, tisCap: 1.5 }, -1.3],
  [{ policyLoss: { kind: "cispo" } }, 0.8],
  [{ policyLoss: { kind: "cispo" }, tisCap: 1.5, ratioMask: { low: 0.2, high: 5 } }, -1.3],
])("the objective's gradient equals central differences: %o, advantage %d", (options, advantage) => {
  const algorithm = AlgorithmConfig.parse(options);
  const weights = initializeWeights(TINY, 3);
  const start_A = currentOf(weights);
  const { uniform } = stream("objective", "policies");
  const perturbed = (spread: number) => start_A.map((value) => value + spread * (uniform() - 0.5));
  const policies = { behavior_A: perturbed(3), proximal_A: perturbed(3), reference_A: perturbed(1) };
  /** CISPO holds its importance weights constant, so its loss is linear in the log-probs, with the gradient at the start as its slopes. */
  const lossAt = (current_A: number[]): number => {
    const given = { advantage, tokenWeight: 0.2, current_A, ...policies };
    if (algorithm.policyLoss.kind !== "cispo") return trajectoryLoss(given, algorithm).loss;
    const { gradient_A } = trajectoryLoss({ ...given, current_A: start_A }, algorithm);
    return gradient_A.reduce((sum, g, a) => sum + g * (current_A[a] ?? 0), 0);
  };
  const { gradient_A, clipped } = trajectoryLoss(
    { advantage, tokenWeight: 0.2, current_A: start_A, ...policies },
    algorithm,
  );
  expect(clipped).toBeGreaterThan(0);
  const found = linearGradient(weights, scatter(gradient_A, POSITIONS_A, TOKENS.length));
  for (const { name, length } of LAYOUT.parameters) {
    for (const i of [0, Math.floor(length / 3), length - 1]) {
      const at = (by: number) => {
        const moved = weights.slice();
        const view = views(LAYOUT, moved).get(name);
        if (view) view[i] = (view[i] ?? 0) + by;
        return lossAt(currentOf(moved));
      };
      expect(found.get(name)?.[i], `${name}[${i}]`).toBeCloseTo((at(1e-5) - at(-1e-5)) / 2e-5, 8);
    }
  }
});

test("the gradient of linear-entropy equals central differences", () => {
  const weights = initializeWeights(TINY, 3);
  const spread = (value: number) =>
    scatter(
      POSITIONS_A.map((t) => value * (1 + t / 10)),
      POSITIONS_A,
      TOKENS.length,
    );
  const sequence = { tokens: TOKENS, weights_T: spread(-0.3), entropyWeights_T: spread(2) };
  const rows = Object.fromEntries(
    Object.entries(entropyVectors(WANTED, [sequence])).map(([name, values]) => [name, tf.tensor1d(values)]),
  ) as unknown as Parameters<typeof entropyLoss>[2];
  const lossOfWeights = (parameters: Record<string, tf.Tensor>) => {
    const all = distributions(TINY, parameters, treeStates(TINY, parameters, TREE, null), WANTED, 0.9);
    return entropyLoss(targetLogProbs(all, tf.tensor1d(WANTED.targets, "int32")), entropies(all), rows);
  };
  const { grads } = tf.valueAndGrads((...values) =>
    lossOfWeights(Object.fromEntries(values.map((tensor, i) => [NAMES[i] ?? "", tensor]))),
  )(Object.values(weightTensors(LAYOUT, weights)));
  for (const [p, { name, length }] of LAYOUT.parameters.entries()) {
    const found = grads[p]?.dataSync();
    for (const i of [0, Math.floor(length / 3), length - 1]) {
      const at = (by: number) => {
        const moved = weights.slice();
        const view = views(LAYOUT, moved).get(name);
        if (view) view[i] = (view[i] ?? 0) + by;
        return tf.tidy(() => lossOfWeights(weightTensors(LAYOUT, moved)).dataSync()[0] ?? Number.NaN);
      };
      expect(found?.[i], `${name}[${i}]`).toBeCloseTo((at(1e-5) - at(-1e-5)) / 2e-5, 8);
    }
  }
});
