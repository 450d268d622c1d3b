/** @file A training step on turns with advantages of their own. train-step.test.ts checks the gradients of such a step. */
import { expect, test } from "vitest";
import { OptimizerConfig } from "../../core/contracts/agent-config.ts";
import { AlgorithmConfig } from "../../core/contracts/algorithm-config.ts";
import { batchOf, temperature, toy } from "../fakes/toy-batch.ts";
import { trainAlone } from "./train-alone.ts";

const configOf = (algorithm: object) => ({
  algorithm: AlgorithmConfig.parse(algorithm),
  optimizer: OptimizerConfig.parse({}),
  ...{ entropyCoefficient: 0, temperature, minibatchStream: ["minibatches"] },
});

test("one pass of clipped-token updates the policy as the linear loss's two passes do, even if only turns have advantages; if all advantages are 0, nothing is trained", async () => {
  const [direct, linear] = [toy(1), toy(1)];
  const zeroed = batchOf(2, direct, 1).map((entry) => ({ ...entry, advantage: 0 }));
  const turns = zeroed.map((entry, i) => ({ ...entry, turns: [0.8, -0.8].map((offset) => offset * (-1) ** i) }));
  await trainAlone(direct, [turns], configOf({}));
  await trainAlone(linear, [turns], configOf({ ratioMask: { low: 0, high: 1e9 } }));
  expect(direct.calls).toEqual(["forwardBackward:clipped-token", "optimizerStep"]);
  expect(linear.calls).toEqual(["logProbs", "forwardBackward:linear", "optimizerStep"]);
  direct.logits.forEach((value, i) => {
    expect(linear.logits[i]).toBeCloseTo(value, 6);
  });
  expect(direct.logits).not.toEqual(toy(1).logits);
  expect((await trainAlone(toy(1), [zeroed], configOf({}))).trained).toBe(false);
});
