/**
 * @file Products of the sampler's graph whose rounding depends on a row alone, never on how many rows there are.
 *
 * The runtime (MLAS) divides the columns of a product that has fewer rows than columns among threads: at least 16 columns to a thread, and more
 * threads the larger the product is. It sums the inner dimension in parts of 128, and in longer parts where a thread has at most 64 columns. There,
 * a product of two rows can round differently from one of 200 rows. So such a product is computed in parts here: of 16 columns, which threads do
 * not divide, or of 128 of the inner dimension, each of which is summed at once. A packed weight is always summed in the same parts.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { ModelConfig } from "../../checkpoint/config.ts";
import type { Factor } from "../../model/transformer.ts";
import type { LaneOptions } from "../lanes.ts";
import { logitsOf } from "./head.ts";

/** Columns are divided among threads in multiples of this. */
const BLOCK_COLUMNS = 16;
/** A thread with at most this many blocks may sum in parts longer than `PART`. */
const LONG_SUM_BLOCKS = 4;
/** Inner dimensions up to this are summed at once. */
const PART = 128;

/**
 * The number of threads of a sampler. On the CPU: at most one per head, since attention has a product per head, and without packing so few that
 * each has more than 64 columns of a product as wide as the model. Then only keys and values, if they have fewer columns, are summed in parts,
 * which copies their weights.
 */
export function samplingThreads(
  { width, heads, headWidth }: ModelConfig,
  { provider, threads, packsWeights }: LaneOptions,
): number {
  if (provider !== "cpu") return threads;
  const undivided = Math.floor(Math.min(width, heads * headWidth) / (BLOCK_COLUMNS * (LONG_SUM_BLOCKS + 1)));
  return Math.min(threads, heads, packsWeights ? threads : Math.max(1, undivided));
}

/** x [N, in] and w [out, in], which is a factor of a linear layer or the output head -> x w^T [N, out]. */
export type RowProduct = (x: tf.Tensor2D, w: tf.Tensor2D, factor: Factor | "head") => tf.Tensor2D;

/** On a GPU, and with a quantized base that is not packed, products with weights are plain: their rounding can depend on the number of rows. */
export function rowProduct({ provider, threads, packsWeights, quantized }: LaneOptions): RowProduct {
  const hasPlainWeights = packsWeights || quantized !== undefined || threads === 1;
  return (x, w, factor) => {
    const [columns] = w.shape;
    const whole = factor === "head" ? logitsOf : plain;
    if (provider !== "cpu") return whole(x, w);
    if (factor === "A") return columns > BLOCK_COLUMNS ? inColumns(x, w) : plain(x, w);
    // Also with one thread: a packed base's lanes have one thread or several, and must give the same bits.
    if (factor === "B") return inParts(x, w);
    const isWide = Math.floor(Math.ceil(columns / BLOCK_COLUMNS) / threads) > LONG_SUM_BLOCKS;
    return hasPlainWeights || isWide ? whole(x, w) : inParts(x, w);
  };
}

const plain = (x: tf.Tensor2D, w: tf.Tensor2D): tf.Tensor2D => tf.matMul(x, w, false, true);

function inColumns(x: tf.Tensor2D, w: tf.Tensor2D): tf.Tensor2D {
  const [columns, inner] = w.shape;
  const parts = partsOf(columns, BLOCK_COLUMNS).map(([start, size]) =>
    plain(x, tf.slice(w, [start, 0], [size, inner])),
  );
  return tf.concat(parts, 1);
}

function inParts(x: tf.Tensor2D, w: tf.Tensor2D): tf.Tensor2D {
  const [rows] = x.shape;
  const [columns, inner] = w.shape;
  if (inner <= PART) return plain(x, w);
  return partsOf(inner, PART)
    .map(([start, size]) => plain(tf.slice(x, [0, start], [rows, size]), tf.slice(w, [0, start], [columns, size])))
    .reduce((sum, part) => tf.add<tf.Tensor2D>(sum, part));
}

const partsOf = (length: number, size: number): [start: number, size: number][] =>
  Array.from({ length: Math.ceil(length / size) }, (_, i) => [i * size, Math.min(size, length - i * size)]);
