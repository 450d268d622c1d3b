/** @file The log-probs that the eager model gives to predictions, for tests that differentiate them. */
import * as tf from "@tensorflow/tfjs-core";
import { distributions } from "../../engine/eager/model.ts";
import { targetLogProbs } from "../../engine/model/losses.ts";

/** Hidden states [N, D] -> log p of the target of each prediction, [R]. */
export function predictedLogProbs(...[config, weights, states, wanted, temperature]: Parameters<typeof distributions>) {
  const all = distributions(config, weights, states, wanted, temperature);
  return targetLogProbs(all, tf.tensor1d(wanted.targets, "int32"));
}
