/** @file The whole model, embedding and head included, on one sequence at a time: no padding, no KV cache, tfjs's own gradients. */
import * as tf from "@tensorflow/tfjs-core";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { EMBEDDING, headName, type ParameterLayout, views } from "../checkpoint/parameters.ts";
import { causalAttention } from "../model/attention.ts";
import { causalMask, rotaryTable } from "../model/positions.ts";
import { transformer, type WeightTensors, weightNamed } from "../model/transformer.ts";

export function weightTensors(layout: ParameterLayout, flat: Float32Array): Record<string, tf.Tensor> {
  const parts = views(layout, flat);
  return Object.fromEntries(
    layout.parameters.map(({ name, shape }) => [name, tf.tensor(parts.get(name) ?? new Float32Array(), [...shape])]),
  );
}

/** T tokens -> hidden states [T, D]. */
export function hiddenStates(
  config: ModelConfig,
  weights: WeightTensors,
  tokens: readonly number[],
  lora: LoraConfig | null,
): tf.Tensor2D {
  const count = tokens.length;
  const embedded = tf.gather(weightNamed(weights, EMBEDDING), tf.tensor1d([...tokens], "int32"));
  const { cos, sin, half } = rotaryTable(config, count);
  const angles = { cos: tf.tensor3d(cos, [1, count, half]), sin: tf.tensor3d(sin, [1, count, half]) };
  const mask = tf.tensor2d(causalMask(count), [count, count]);
  const input = tf.reshape(embedded, [1, count, config.width]) as tf.Tensor3D;
  return transformer(config, weights, input, angles, causalAttention(config, mask, 1), lora);
}

export const headOf = (config: ModelConfig, weights: WeightTensors): tf.Tensor2D =>
  weightNamed(weights, headName(config)) as tf.Tensor2D;
