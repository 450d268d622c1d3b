/**
 * @file The sampler's one graph: writes the keys and values of new tokens into the cache, in place, attends to the cache, and gives the
 * distribution after one token of each row. Prefill is one slot with many tokens, decoding many slots with one token.
 *
 * A token's key lies at its position whether it came alone or in a chunk, and every query reads the whole cache width, so a
 * sequence's numbers depend on no other row.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { ModelConfig } from "../../checkpoint/config.ts";
import { headName } from "../../checkpoint/parameters.ts";
import { splitHeads } from "../../model/attention.ts";
import { type Attend, transformer, weightOf } from "../../model/transformer.ts";
import { symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, traceGraph } from "../trace/trace.ts";
import { declareWeights } from "./weights.ts";

export const cacheNames = (layer: number) => ({
  keys: `keys:${layer}`,
  values: `values:${layer}`,
  keysAfter: `keysAfter:${layer}`,
  valuesAfter: `valuesAfter:${layer}`,
});

/**
 * Inputs: embedded [B, T, D]; cos, sin [B, T, hd/2]; per layer keys [B, KV, hd, C] and values [B, KV, C, hd] for a cache width C; start [B], where
 * row b's tokens go; mask [B, 1, 1, T, C]; last [B], the row of B * T to predict from; inverseTemperature [B, 1].
 * Outputs: the caches, and probabilities [B, V].
 */
export function traceExtend(config: ModelConfig): TracedGraph {
  return traceGraph("extend", (scope) => {
    const { batch, tokens, cached } = symbolic;
    const { heads, kvHeads, headWidth } = config;
    const group = heads / kvHeads;
    const embedded = scope.input<tf.Tensor3D>("embedded", [batch, tokens, config.width]);
    const cos = scope.input("cos", [batch, tokens, headWidth / 2]);
    const sin = scope.input("sin", [batch, tokens, headWidth / 2]);
    const start = scope.input("start", [batch], "int64");
    const mask = scope.input("mask", [batch, 1, 1, tokens, cached]);
    const last = scope.input<tf.Tensor1D>("last", [batch], "int64");
    const inverseTemperature = scope.input("inverseTemperature", [batch, 1]);
    const weights = declareWeights(config, scope);

    const attend: Attend = ({ layer, q, k, v }) => {
      const name = cacheNames(layer);
      const keyColumns = tf.transpose(tf.reshape(k, [batch, tokens, kvHeads, headWidth]), [0, 2, 3, 1]);
      const keysBefore = scope.input(name.keys, [batch, kvHeads, headWidth, cached]);
      const valuesBefore = scope.input(name.values, [batch, kvHeads, cached, headWidth]);
      const keys = writeCache(keysBefore, keyColumns, start, -1);
      const values = writeCache(valuesBefore, splitHeads(v, kvHeads), start, -2);
      scope.output(name.keysAfter, keys);
      scope.output(name.valuesAfter, values);
      // One product per query head: with one new token each is a vector by a matrix, which needs no repacking of the cache.
      const queries = tf.transpose(tf.reshape(q, [batch, tokens, kvHeads, group, headWidth]), [0, 2, 3, 1, 4]);
      const scores = tf.matMul(queries, tf.reshape(keys, [batch, kvHeads, 1, headWidth, cached]));
      const attention = tf.softmax(tf.add(scores, mask));
      const read = tf.matMul(attention, tf.reshape(values, [batch, kvHeads, 1, cached, headWidth]));
      return tf.reshape(tf.transpose(read, [0, 3, 1, 2, 4]), [batch * tokens, heads * headWidth]);
    };
    const hidden = transformer(config, weights, embedded, { cos, sin }, attend);
    const chosen = tf.mul<tf.Tensor2D>(tf.gather(hidden, last), inverseTemperature);
    const head = weightOf(weights, headName(config)) as tf.Tensor2D;
    scope.output("probabilities", tf.softmax(tf.matMul(chosen, head, false, true)));
  });
}

function writeCache(cache: tf.Tensor, update: tf.Tensor, start: tf.Tensor, axis: number): tf.Tensor {
  return tf.engine().runKernel("WriteCache", { cache, update, start }, { axis }) as unknown as tf.Tensor;
}
