/**
 * @file A control dependency in a graph. The runtime computes any node whose inputs are ready; to delay one, so that its outputs do not
 * occupy memory too early, its input is made to depend on other values: x + 0 * (one element of each).
 */
import * as tf from "@tensorflow/tfjs-core";

/** x, available only after all of `earlier`. The kernel has no gradient: call this outside `tf.grads`. */
export function controlDependency<T extends tf.Tensor>(x: T, earlier: readonly tf.Tensor[]): T {
  if (earlier.length === 0) return x;
  const inputs = Object.fromEntries([x, ...earlier].map((tensor, i) => [i === 0 ? "x" : `earlier${i}`, tensor]));
  return tf.engine().runKernel<T>("ControlDependency", inputs);
}
