/**
 * @file Log-probs of the targets, with a hand-written gradient. With P = softmax(logits) and d = dLoss/dlogProb:
 *   dHidden = d/tau * (E[target] - P E)        dE = -P^T (d/tau * hidden)  +  scatter-add over targets of d/tau * hidden
 * P is the only [N, V] array that the backward pass computes. The scatter-add is left to the caller, as rows (`targetRows`): ONNX
 * Runtime's scatter-add has a data race when several threads run it; a loop over rows is fast and deterministic. So dE
 * is returned in two parts.
 */
import * as tf from "@tensorflow/tfjs-core";

export interface HeadPass {
  /** [N] */
  readonly logProbs: tf.Tensor1D;
  /** [N, D], set once the gradient has been taken: row n is added to the gradient of E[target n]. */
  targetRows: tf.Tensor2D | undefined;
}

export function headLogProbs(
  hidden: tf.Tensor2D,
  head: tf.Tensor2D,
  targets: tf.Tensor1D,
  inverseTemperature: tf.Scalar,
): HeadPass {
  let targetRows: tf.Tensor2D | undefined;
  const operation = tf.customGrad<tf.Tensor>((...inputs) => {
    const [h, e, save] = inputs as [tf.Tensor2D, tf.Tensor2D, tf.GradSaveFunc];
    const logits = logitsOf(tf.mul<tf.Tensor2D>(h, inverseTemperature), e);
    // Runs the kernel itself: tf.logSoftmax is composed of several others.
    const all = tf.engine().runKernel<tf.Tensor2D>("LogSoftmax", { logits }, { axis: -1 });
    save([h, e, all]);
    return {
      value: pickColumn(all, targets),
      gradFunc: (dy, saved) => {
        const [h_, e_, all_] = saved as [tf.Tensor2D, tf.Tensor2D, tf.Tensor2D];
        const p = tf.exp(all_) as tf.Tensor2D;
        const d = tf.mul(dy, inverseTemperature);
        targetRows = tf.keep(tf.mul(d, h_) as tf.Tensor2D);
        const dHidden = tf.mul(d, tf.sub(tf.gather(e_, targets), tf.matMul(p, e_)));
        return [dHidden, tf.neg(tf.matMul(p, targetRows, true, false))];
      },
    };
  });
  const logProbs = tf.reshape(operation(hidden, head), [-1]) as tf.Tensor1D;
  return {
    logProbs,
    get targetRows() {
      return targetRows;
    },
  };
}

/** hidden [N, D], head [V, D] -> [N, V]. Always in fp32: in bf16, probabilities of sampler and trainer would differ by several percent. */
export function logitsOf(hidden: tf.Tensor2D, head: tf.Tensor2D): tf.Tensor2D {
  const options = { transposeA: false, transposeB: true, exact: true };
  return tf.engine().runKernel<tf.Tensor2D>("BatchMatMul", { a: hidden, b: head }, options);
}

/**
 * Rows of x [N, D] -> [R, D]. `inverseRows` [N * m] is the inverse: for each row of x, its indices among the R, at most m, padded with R.
 * With it, the gradient is a gather and a sum over m instead of a scatter-add.
 */
export function gatherTensorRows(x: tf.Tensor2D, rows: tf.Tensor1D, inverseRows: tf.Tensor1D): tf.Tensor2D {
  const operation = tf.customGrad<tf.Tensor>((...inputs) => {
    const [from] = inputs as [tf.Tensor2D];
    return {
      value: tf.gather(from, rows),
      gradFunc: (dy) => {
        const [count, width] = from.shape;
        const parts = tf.gather(tf.concat([dy, tf.zeros([1, width])], 0), inverseRows);
        const gathers = inverseRows.shape[0] / count;
        return gathers === 1 ? parts : tf.sum(tf.reshape(parts, [count, gathers, width]), 1);
      },
    };
  });
  return operation(x) as tf.Tensor2D;
}

export function pickColumn(x: tf.Tensor2D, columns: tf.Tensor1D): tf.Tensor2D {
  return tf.engine().runKernel<tf.Tensor2D>("PickColumn", { x, columns });
}
