/**
 * @file The loss `linear-entropy` of rows, with a hand-written gradient. With P = softmax(logits), L = log P and H = -sum of P L, the loss is the
 * sum over rows of w * L[target] - u * H, and dH/dlogits = -P (L + H). So, with Q = P (u (L + H) - w) and tau the temperature:
 *   dHidden = 1/tau * (w E[target] + Q E)        dE = Q^T (1/tau * hidden)  +  scatter-add over targets of w/tau * hidden
 * The scatter-add is left to the caller, as in head.ts.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { EntropyRows } from "../../model/losses.ts";
import { type HeadPass, logitsOf, pickColumn } from "./head.ts";

export function entropyHeadLoss(
  hidden: tf.Tensor2D,
  head: tf.Tensor2D,
  targets: tf.Tensor1D,
  inverseTemperature: tf.Scalar,
  { linearWeights, entropyWeights }: EntropyRows,
): { readonly loss: tf.Scalar; readonly pass: HeadPass } {
  const rows = hidden.shape[0];
  const column = (x: tf.Tensor) => tf.reshape(x, [rows, 1]) as tf.Tensor2D;
  const [w, u] = [column(linearWeights), column(entropyWeights)];
  const kept: { logProbs?: tf.Tensor2D; targetRows?: tf.Tensor2D } = {};
  const operation = tf.customGrad<tf.Tensor>((...inputs) => {
    const [h, e, save] = inputs as [tf.Tensor2D, tf.Tensor2D, tf.GradSaveFunc];
    const logits = logitsOf(tf.mul<tf.Tensor2D>(h, inverseTemperature), e);
    const all = tf.engine().runKernel<tf.Tensor2D>("LogSoftmax", { logits }, { axis: -1 });
    const entropy = tf.neg(tf.sum(tf.mul(tf.exp(all), all), 1, true)) as tf.Tensor2D;
    const logProbs = tf.keep(pickColumn(all, targets));
    kept.logProbs = logProbs;
    save([h, e, all, entropy]);
    return {
      value: tf.reshape(tf.sub(tf.matMul(w, logProbs, true), tf.matMul(u, entropy, true)), []),
      gradFunc: (dy, saved) => {
        const [h_, e_, all_, entropy_] = saved as [tf.Tensor2D, tf.Tensor2D, tf.Tensor2D, tf.Tensor2D];
        const d = tf.mul(dy, inverseTemperature);
        const q = tf.mul(tf.exp(all_), tf.sub(tf.mul(u, tf.add(all_, entropy_)), w)) as tf.Tensor2D;
        kept.targetRows = tf.keep(tf.mul(tf.mul(d, w), h_) as tf.Tensor2D);
        const dHidden = tf.mul(d, tf.add(tf.mul(w, tf.gather(e_, targets)), tf.matMul(q, e_)));
        return [dHidden, tf.matMul(q, tf.mul(d, h_) as tf.Tensor2D, true, false)];
      },
    };
  });
  const loss = operation(hidden, head) as tf.Scalar;
  return {
    loss,
    pass: {
      logProbs: tf.reshape(kept.logProbs as tf.Tensor2D, [-1]) as tf.Tensor1D,
      get targetRows() {
        return kept.targetRows;
      },
    },
  };
}
