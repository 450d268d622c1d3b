/**
 * @file Order in a graph. The runtime may compute whatever has its inputs; what must not be computed early, since its arrays would lie
 * about, is made to depend on what comes before it: x + 0 * (one number of each).
 */
import * as tf from "@tensorflow/tfjs-core";

/** x, known only when all of `earlier` are. No gradient flows to them. */
export function controlDependency<T extends tf.Tensor>(x: T, earlier: readonly tf.Tensor[]): T {
  if (earlier.length === 0) return x;
  const inputs = Object.fromEntries([x, ...earlier].map((tensor, i) => [i === 0 ? "x" : `earlier${i}`, tensor]));
  return tf.engine().runKernel("After", inputs) as unknown as T;
}
