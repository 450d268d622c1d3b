/**
 * @file The sampler's graph: new tokens attend to the KV cache and to each other. Outputs are their keys and values, which the caller writes
 * into the cache, and the distribution after one token of each sequence. Prefill runs it with many tokens per sequence, decode with one.
 *
 * `traceExtend` has the cache as an input and not as an output: the runtime cannot update an input in place, and the cache is too large to copy
 * on every run. A cache on the device is also an output (extend-on-device.ts). Every query reads the whole cache width, and masked positions
 * get a weight of exactly 0. With the products of row-product.ts, the bits of a sequence on the CPU then depend on no other sequence (exceptions:
 * engine/README.md).
 */
import * as tf from "@tensorflow/tfjs-core";
import { EMBEDDING, headName } from "../../checkpoint/parameters.ts";
import { splitHeads } from "../../model/attention.ts";
import { type Attend, transformer, weightNamed } from "../../model/transformer.ts";
import type { LaneOptions } from "../lanes.ts";
import { type PolicyShape, shapeParameters } from "../policy-shape.ts";
import { symbolic } from "../trace/dimensions.ts";
import { type TracedGraph, type TraceScope, traceGraph } from "../trace/trace.ts";
import { rowProduct } from "./row-product.ts";
import { declareWeights } from "./weights.ts";

export const cacheNames = (layer: number) => ({
  keys: `keys:${layer}`,
  values: `values:${layer}`,
  newKeys: `newKeys:${layer}`,
  newValues: `newValues:${layer}`,
});

/**
 * Inputs: tokens [B, T]; cos, sin [B, T, hd/2]; per layer keys [B, KV, hd, C] and values [B, KV, C, hd] for a cache width C;
 * mask [B, 1, 1, T, C + T], cache positions first; last [B]: for each sequence, which of the B * T tokens to predict from;
 * inverseTemperature [B, 1]; weights.
 * Outputs: per layer newKeys [B, KV, hd, T] and newValues [B, KV, T, hd]; probabilities [B, V].
 */
export function traceExtend(shape: PolicyShape, options: LaneOptions): TracedGraph {
  const { kvHeads, headWidth } = shape.config;
  const { batch, cached } = symbolic;
  return traceGraph("extend", (scope) =>
    extend(shape, options, scope, {
      cacheOf: (layer) => {
        const { keys, values } = cacheNames(layer);
        return {
          keys: scope.input(keys, [batch, kvHeads, headWidth, cached]),
          values: scope.input(values, [batch, kvHeads, cached, headWidth]),
        };
      },
      put(layer, keys, values) {
        const { newKeys, newValues } = cacheNames(layer);
        scope.output(newKeys, keys);
        scope.output(newValues, values);
      },
    }),
  );
}

/** How a graph reads its KV cache and what it does with the new keys and values. */
export interface CacheAccess {
  /** keys [B, KV, hd, C] and values [B, KV, C, hd]. */
  cacheOf(layer: number): { readonly keys: tf.Tensor; readonly values: tf.Tensor };
  /** newKeys [B, KV, hd, T] and newValues [B, KV, T, hd]. */
  put(layer: number, newKeys: tf.Tensor, newValues: tf.Tensor): void;
}

/** Traces the graph. Declares every input but the cache, and the output `probabilities`. */
export function extend(
  shape: PolicyShape,
  options: LaneOptions,
  scope: TraceScope,
  { cacheOf, put }: CacheAccess,
): void {
  const { config, lora } = shape;
  const { batch, tokens, cached, seen } = symbolic;
  const { heads, kvHeads, headWidth } = config;
  const group = heads / kvHeads;
  const ids = scope.input<tf.Tensor2D>("tokens", [batch, tokens], "int32");
  const cos = scope.input("cos", [batch, tokens, headWidth / 2]);
  const sin = scope.input("sin", [batch, tokens, headWidth / 2]);
  const mask = scope.input("mask", [batch, 1, 1, tokens, seen]);
  const last = scope.input<tf.Tensor1D>("last", [batch], "int64");
  const inverseTemperature = scope.input("inverseTemperature", [batch, 1]);
  const weights = declareWeights(shapeParameters(shape), scope);

  const attend: Attend = ({ layer, q, k, v }) => {
    const { keys, values } = cacheOf(layer);
    const newKeys = tf.transpose(tf.reshape(k, [batch, tokens, kvHeads, headWidth]), [0, 2, 3, 1]);
    const newValues = splitHeads(v, kvHeads);
    put(layer, newKeys, newValues);
    // One product per query head: with one new token it is a vector-matrix product, which needs no repacking of the cache.
    const queries = tf.transpose(tf.reshape(q, [batch, tokens, kvHeads, group, headWidth]), [0, 2, 3, 1, 4]);
    const scores = tf.concat(
      [
        tf.matMul(queries, tf.reshape(keys, [batch, kvHeads, 1, headWidth, cached])),
        tf.matMul(queries, tf.reshape(newKeys, [batch, kvHeads, 1, headWidth, tokens])),
      ],
      -1,
    );
    const attention = tf.softmax(tf.add(scores, mask));
    const [onCache, onNew] = [
      tf.slice(attention, [0, 0, 0, 0, 0], [batch, kvHeads, group, tokens, cached]),
      tf.slice(attention, [0, 0, 0, 0, cached], [batch, kvHeads, group, tokens, tokens]),
    ];
    const read = tf.add(
      tf.matMul(onCache, tf.reshape(values, [batch, kvHeads, 1, cached, headWidth])),
      tf.matMul(onNew, tf.reshape(newValues, [batch, kvHeads, 1, tokens, headWidth])),
    );
    return tf.reshape(tf.transpose(read, [0, 3, 1, 2, 4]), [batch * tokens, heads * headWidth]);
  };
  const product = rowProduct(options);
  const embedded = tf.gather(weightNamed(weights, EMBEDDING), ids) as tf.Tensor3D;
  const hidden = transformer(config, weights, embedded, { cos, sin }, attend, lora, product);
  const chosen = tf.mul<tf.Tensor2D>(tf.gather(hidden, last), inverseTemperature);
  const head = weightNamed(weights, headName(config)) as tf.Tensor2D;
  scope.output("probabilities", tf.softmax(product(chosen, head, "head")));
}
