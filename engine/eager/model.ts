/** @file The whole model, embedding and head included, on one row at a time: no padding, no KV cache. */
import * as tf from "@tensorflow/tfjs-core";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import type { ModelConfig } from "../checkpoint/config.ts";
import { EMBEDDING, headName, type ParameterLayout, viewOf } from "../checkpoint/parameters.ts";
import { causalAttention } from "../model/attention.ts";
import { allLogProbs } from "../model/losses.ts";
import { causalMask, rotaryTable } from "../model/positions.ts";
import type { Predictions } from "../model/predictions.ts";
import { fillTreeMask, type PrefixTree } from "../model/prefix-tree.ts";
import { transformer, type WeightTensors, weightNamed } from "../model/transformer.ts";

export function weightTensors(layout: ParameterLayout, flat: Float32Array): Record<string, tf.Tensor> {
  return Object.fromEntries(
    layout.parameters.map((parameter) => [parameter.name, tf.tensor(viewOf(parameter, flat), [...parameter.shape])]),
  );
}

/** T tokens -> hidden states [T, D]. */
export function hiddenStates(
  config: ModelConfig,
  weights: WeightTensors,
  tokens: readonly number[],
  lora: LoraConfig | null,
): tf.Tensor2D {
  const positions = Int32Array.from(tokens, (_, t) => t);
  return rowStates(config, weights, { tokens: new Int32Array(tokens), positions }, causalMask(tokens.length), lora);
}

/** The nodes of a tree -> hidden states [N, D]. */
export function treeStates(
  config: ModelConfig,
  weights: WeightTensors,
  tree: PrefixTree,
  lora: LoraConfig | null,
): tf.Tensor2D {
  const count = tree.tokens.length;
  const mask = new Float32Array(count * count);
  fillTreeMask(mask, tree, count);
  return rowStates(config, weights, tree, mask, lora);
}

/** Log p of every token, for each prediction: [R, V]. */
export function distributions(
  config: ModelConfig,
  weights: WeightTensors,
  states: tf.Tensor2D,
  { row }: Predictions,
  temperature: number,
): tf.Tensor2D {
  const gathered = tf.gather(states, tf.tensor1d(row, "int32"));
  return allLogProbs(gathered, headOf(config, weights), tf.scalar(1 / temperature));
}

function rowStates(
  config: ModelConfig,
  weights: WeightTensors,
  { tokens, positions }: Pick<PrefixTree, "tokens" | "positions">,
  mask: Float32Array,
  lora: LoraConfig | null,
): tf.Tensor2D {
  const count = tokens.length;
  const embedded = tf.gather(weightNamed(weights, EMBEDDING), tf.tensor1d(tokens, "int32"));
  const { cos, sin, half } = rotaryTable(config, count);
  const at = tf.tensor1d(positions, "int32");
  const angles = (table: Float32Array) => tf.gather(tf.tensor3d(table, [1, count, half]), at, 1);
  const input = tf.reshape(embedded, [1, count, config.width]) as tf.Tensor3D;
  const attend = causalAttention(config, tf.tensor2d(mask, [count, count]), 1);
  return transformer(config, weights, input, { cos: angles(cos), sin: angles(sin) }, attend, lora);
}

export const headOf = (config: ModelConfig, weights: WeightTensors): tf.Tensor2D =>
  weightNamed(weights, headName(config)) as tf.Tensor2D;
