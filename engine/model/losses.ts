/** @file Log-probs of the next tokens, and the losses, as tfjs functions of N rows: one per prediction. */
import * as tf from "@tensorflow/tfjs-core";

/** hidden [N, D], head [V, D] -> log p of every token at a temperature, [N, V]. */
export function allLogProbs(hidden: tf.Tensor2D, head: tf.Tensor2D, inverseTemperature: tf.Scalar): tf.Tensor2D {
  return tf.logSoftmax(tf.matMul(tf.mul(hidden, inverseTemperature), head, false, true));
}

/** [N, V], targets [N] -> log p of each row's target, [N]. */
export function targetLogProbs(all: tf.Tensor2D, targets: tf.Tensor1D): tf.Tensor1D {
  return tf.sum(tf.mul(all, tf.oneHot(targets, all.shape[1])), 1);
}

/** -sum of p log p of each row, in nats: [N, V] -> [N]. */
export function entropies(all: tf.Tensor2D): tf.Tensor1D {
  return tf.neg(tf.sum(tf.mul(tf.exp(all), all), 1));
}

/** Inputs of `linear` and `clipped-token`. Vectors are [N]; weights are zero where a row is not part of the loss. */
export interface LossRows {
  /** `linear`: dLoss/dlogProb. */
  readonly linearWeights: tf.Tensor1D;
  /** `clipped-token`: the weight of the row's term. */
  readonly clippedWeights: tf.Tensor1D;
  readonly advantages: tf.Tensor1D;
  readonly behaviorLogProbs: tf.Tensor1D;
  /** Bounds of the ratio: 1 - clipLow and 1 + clipHigh. */
  readonly lowest: tf.Scalar;
  readonly highest: tf.Scalar;
}

/** sum linear * logProb - sum clipped * min(r A, clip(r) A), r = exp(logProb - behavior). A batch uses one of the two terms; the other is zero. */
export function loss(logProbs: tf.Tensor1D, rows: LossRows): tf.Scalar {
  const ratio: tf.Tensor1D = tf.exp(tf.sub(logProbs, rows.behaviorLogProbs));
  const clipped = tf.minimum(tf.maximum(ratio, rows.lowest), rows.highest);
  const surrogate: tf.Tensor1D = tf.minimum(tf.mul(ratio, rows.advantages), tf.mul(clipped, rows.advantages));
  return tf.sub(dot(rows.linearWeights, logProbs), dot(rows.clippedWeights, surrogate));
}

/** Per-row inputs of `linear-entropy`, [N]; zero where a row is not part of the loss. */
export interface EntropyRows {
  readonly linearWeights: tf.Tensor1D;
  readonly entropyWeights: tf.Tensor1D;
}

/** sum linear * logProb - sum entropyWeight * entropy. */
export function entropyLoss(logProbs: tf.Tensor1D, entropies_N: tf.Tensor1D, rows: EntropyRows): tf.Scalar {
  return tf.sub(dot(rows.linearWeights, logProbs), dot(rows.entropyWeights, entropies_N));
}

/** A matrix product, since the gradient of tf.sum would allocate an array of ones. */
function dot(weights: tf.Tensor1D, values: tf.Tensor1D): tf.Scalar {
  const rows = weights.shape[0];
  return tf.reshape(tf.matMul(tf.reshape(weights, [1, rows]), tf.reshape(values, [rows, 1])), []) as tf.Scalar;
}
