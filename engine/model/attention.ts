/** @file Causal grouped-query attention within each row: a sequence, or a prefix tree in depth-first order. */
import * as tf from "@tensorflow/tfjs-core";
import type { ModelConfig } from "../checkpoint/config.ts";
import type { Attend } from "./transformer.ts";

/** [B, T, n * hd] -> [B, n, T, hd]. */
export function splitHeads(x: tf.Tensor3D, heads: number): tf.Tensor4D {
  const [batch, tokens, width] = x.shape;
  return tf.transpose(tf.reshape(x, [batch, tokens, heads, width / heads]), [0, 2, 1, 3]) as tf.Tensor4D;
}

/** [B, n, T, hd] -> [B * T, n * hd]. */
function mergeHeads(x: tf.Tensor4D): tf.Tensor2D {
  const [batch, heads, tokens, width] = x.shape;
  return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch * tokens, heads * width]);
}

/** Additive: [T, T] for all rows, or [B, 1, T, T]. */
export type Mask = tf.Tensor2D | tf.Tensor4D;

/**
 * mask[query, key]: 0 where the query attends to the key, which is never a later one; -1e30 elsewhere. Queries are split into `blocks` equal
 * parts, each of which attends to the keys up to its end: with four, 3/8 of the [T, T] scores are never computed. T is a multiple of `blocks`.
 */
export function causalAttention(config: ModelConfig, mask: Mask, blocks: number): Attend {
  const { heads, kvHeads } = config;
  return ({ q, k, v }) =>
    mergeHeads(attention(splitHeads(q, heads), splitHeads(k, kvHeads), splitHeads(v, kvHeads), mask, blocks));
}

/** Part `index` of `count` along the token axis of [B, n, T, hd]. */
function part(x: tf.Tensor4D, index: number, count: number): tf.Tensor4D {
  const [batch, heads, tokens, width] = x.shape;
  const length = tokens / count;
  return count === 1 ? x : tf.slice4d(x, [0, 0, index * length, 0], [batch, heads, length, width]);
}

/** The first `parts` of `count` parts along the token axis. */
function firstParts(x: tf.Tensor4D, parts: number, count: number): tf.Tensor4D {
  const [batch, heads, tokens, width] = x.shape;
  return parts === count ? x : tf.slice4d(x, [0, 0, 0, 0], [batch, heads, (tokens / count) * parts, width]);
}

/**
 * softmax(q k^T + mask) v with q [B, H, T, hd], k and v [B, KV, T, hd]. A hand-written gradient: sum(dP * P) over keys equals sum(dO * O)
 * over the head's width, which saves passes over the [T, T] matrices.
 */
function attention(q: tf.Tensor4D, k: tf.Tensor4D, v: tf.Tensor4D, mask: Mask, blocks: number): tf.Tensor4D {
  const operation = tf.customGrad<tf.Tensor4D>((...inputs) => {
    const [queries, keys, values, save] = inputs as [tf.Tensor4D, tf.Tensor4D, tf.Tensor4D, tf.GradSaveFunc];
    const passes = Array.from({ length: blocks }, (_, i) => forward(queries, keys, values, mask, i, blocks));
    const outputs = passes.map((pass) => pass.output);
    save([queries, keys, values, ...passes.map((pass) => pass.weights), ...outputs]);
    return {
      value: tf.concat(outputs, 2) as tf.Tensor4D,
      gradFunc: (dy, saved) => {
        const [q_, k_, v_, ...rest] = saved as [tf.Tensor4D, tf.Tensor4D, tf.Tensor4D, ...tf.Tensor4D[]];
        const gradients = Array.from({ length: blocks }, (_, i) =>
          backward(part(dy, i, blocks), q_, k_, v_, rest[i] as tf.Tensor4D, rest[blocks + i] as tf.Tensor4D, i, blocks),
        );
        return [
          tf.concat(
            gradients.map((gradient) => gradient.q),
            2,
          ),
          addUp(gradients.map((gradient) => gradient.k)),
          addUp(gradients.map((gradient) => gradient.v)),
        ];
      },
    };
  });
  return operation(q, k, v);
}

/** Query heads that share a KV head become rows of one product: [B, H, U, hd] -> [B, KV, H / KV * U, hd]. */
function grouped(x: tf.Tensor4D, kvHeads: number): tf.Tensor4D {
  const [batch, heads, tokens, width] = x.shape;
  return tf.reshape(x, [batch, kvHeads, (heads / kvHeads) * tokens, width]);
}

/** The mask of some queries and the first `seen` keys. */
function maskPart(mask: Mask, begin: number, queries: number, seen: number): Mask {
  const size = [...mask.shape.slice(0, -2), queries, seen];
  return tf.slice(mask, [...size.slice(0, -2).map(() => 0), begin, 0], size);
}

/** Block i of U queries: attention weights [B, KV, H / KV * U, E] over the E keys up to its end, and its output [B, H, U, hd]. */
function forward(q: tf.Tensor4D, k: tf.Tensor4D, v: tf.Tensor4D, mask: Mask, i: number, blocks: number) {
  const block = part(q, i, blocks);
  const [batch, heads, rows] = block.shape;
  const kvHeads = k.shape[1];
  const [keys, values] = [firstParts(k, i + 1, blocks), firstParts(v, i + 1, blocks)];
  const seen = keys.shape[2];
  const blockMask = blocks === 1 ? mask : maskPart(mask, i * rows, rows, seen);
  const scores = tf.reshape(tf.matMul(grouped(block, kvHeads), keys, false, true), [batch, heads, rows, seen]);
  const weights = tf.reshape(tf.softmax(tf.add(scores, blockMask)), [batch, kvHeads, -1, seen]) as tf.Tensor4D;
  return { weights, output: tf.reshape(tf.matMul(weights, values), block.shape) };
}

function backward(
  dy: tf.Tensor4D,
  q: tf.Tensor4D,
  k: tf.Tensor4D,
  v: tf.Tensor4D,
  weights: tf.Tensor4D,
  output: tf.Tensor4D,
  i: number,
  blocks: number,
) {
  const kvHeads = k.shape[1];
  const upstream = grouped(dy, kvHeads);
  const [block, keys, values] = [part(q, i, blocks), firstParts(k, i + 1, blocks), firstParts(v, i + 1, blocks)];
  const delta = tf.sum(tf.mul(upstream, grouped(output, kvHeads)), -1, true);
  const dScores = tf.mul(weights, tf.sub(tf.matMul(upstream, values, false, true), delta));
  return {
    q: tf.reshape(tf.matMul(dScores, keys), block.shape) as tf.Tensor4D,
    k: tf.matMul(dScores, grouped(block, kvHeads), true, false) as tf.Tensor4D,
    v: tf.matMul(weights, upstream, true, false) as tf.Tensor4D,
  };
}

/** Sums the gradients of the first 1, 2, ..., n parts of the keys, or of the values, into one of all parts. */
function addUp(gradients: readonly tf.Tensor4D[]): tf.Tensor4D {
  const count = gradients.length;
  const parts = Array.from({ length: count }, (_, j) => {
    const terms = gradients.slice(j).map((gradient, i) => part(gradient, j, i + j + 1));
    return terms.length === 1 ? (terms[0] as tf.Tensor4D) : tf.addN(terms);
  });
  return count === 1 ? (parts[0] as tf.Tensor4D) : tf.concat(parts, 2);
}
