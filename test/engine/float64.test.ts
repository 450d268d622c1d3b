/**
 * @file Prefix trees in double precision: the eager engine's model code on tfjs, with Float32Array replaced by Float64Array before either is
 * loaded. Gradients of trees equal those of separate sequences to a relative 1e-10, so in single precision they differ by rounding only.
 */
import * as tf from "@tensorflow/tfjs-core";
import { beforeAll, expect, test, vi } from "vitest";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { Loss, TrainingSequence } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { initializeAdapter } from "../../engine/checkpoint/adapter.ts";
import type { ModelConfig } from "../../engine/checkpoint/config.ts";
import { initializeWeights } from "../../engine/checkpoint/initialize.ts";
import { type ParameterLayout, parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { openBackend } from "../../engine/eager/backend.ts";
import { treeStates, weightTensors } from "../../engine/eager/model.ts";
import { lossRows, rowsOf } from "../../engine/eager/trainer.ts";
import { loss as lossOf } from "../../engine/model/losses.ts";
import { lossVectors, weightedPredictions } from "../../engine/model/predictions.ts";
import { branchingRollouts } from "../fixtures/branching-rollouts.ts";
import { predictedLogProbs } from "./predicted-log-probs.ts";
import { LORA, TINY, UNTIED } from "./tiny.ts";

vi.hoisted(() => {
  Object.assign(globalThis, { Float32Array: Float64Array });
});

beforeAll(async () => {
  Object.assign(tf.env().platform, { isTypedArray: ArrayBuffer.isView });
  await openBackend("cpu");
});

interface Policy {
  readonly config: ModelConfig;
  readonly lora: LoraConfig | null;
  readonly frozen: Record<string, tf.Tensor>;
  /** The trained parameters: the adapter's, if there is one. */
  readonly layout: ParameterLayout;
  readonly weights: Float32Array;
}

function policyOf(config: ModelConfig, lora: LoraConfig | null): Policy {
  const layout = parameterLayout(config);
  const weights = initializeWeights(config, 3);
  if (!lora) return { config, lora, frozen: {}, layout, weights };
  const adapter = initializeAdapter(config, lora, [3]);
  const { uniform } = stream("float64", "adapter");
  const nonzero = adapter.weights.map((value) => (value === 0 ? uniform() - 0.5 : value));
  return { config, lora, frozen: weightTensors(layout, weights), layout: adapter.layout, weights: nonzero };
}

/** The gradient of each trained parameter. */
function gradients(policy: Policy, batch: TrainingSequence[], loss: Loss, prefixTrees: boolean): Float32Array[] {
  const { config, lora, frozen, layout, weights } = policy;
  const names = layout.parameters.map(({ name }) => name);
  const sums = layout.parameters.map(({ length }) => new Float32Array(length));
  const sequences = batch.map(({ tokens }) => tokens);
  for (const row of rowsOf(sequences, weightedPredictions(batch, loss), { prefixTrees, microBatchTokens: 1000 })) {
    const rows = lossRows(lossVectors(row.wanted, batch, loss), loss);
    const { grads } = tf.valueAndGrads((...values) => {
      const parameters = { ...frozen, ...Object.fromEntries(values.map((tensor, i) => [names[i] ?? "", tensor])) };
      const states = treeStates(config, parameters, row.tree, lora);
      return lossOf(predictedLogProbs(config, parameters, states, row.wanted, 0.9), rows);
    })(Object.values(weightTensors(layout, weights)));
    grads.forEach((gradient, p) => {
      const sum = sums[p] as Float32Array;
      gradient.dataSync().forEach((value, i) => {
        sum[i] = (sum[i] as number) + value;
      });
    });
  }
  return sums;
}

test.each<[string, ModelConfig, LoraConfig | null, Loss]>([
  ["all weights, clipped", TINY, null, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }],
  ["all weights, untied, linear", UNTIED, null, { kind: "linear" }],
  ["an adapter, clipped", TINY, LORA, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }],
])("gradients of trees equal those of separate sequences to a relative 1e-10: %s", (_name, config, lora, loss) => {
  const policy = policyOf(config, lora);
  const batch = branchingRollouts(policy.config.vocabulary);
  const [trees, separate] = [gradients(policy, batch, loss, true), gradients(policy, batch, loss, false)];
  policy.layout.parameters.forEach(({ name }, p) => {
    const expected = separate[p] as Float32Array;
    const size = Math.max(...expected.map(Math.abs));
    expect(size, name).toBeGreaterThan(0);
    const error = Math.max(...expected.map((value, i) => Math.abs(value - (trees[p]?.[i] ?? Number.NaN))));
    expect(error / size, name).toBeLessThan(1e-10);
  });
});
