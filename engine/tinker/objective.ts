/**
 * @file The Trainer port's losses as weights of a linear loss. The server differentiates log-probs; the loss is computed
 * here, so that it is the same on every server: dLoss/dtheta = sum over t of dLoss/dlogProb_t * dlogProb_t/dtheta, where
 * theta are the model's parameters.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { Loss, TrainingSequence } from "../../core/ports.ts";

export interface Objective {
  readonly loss: number;
  /** dLoss/dlogProb; entry 0 is 0. */
  readonly gradient_T: Float32Array;
}

/** `linear-entropy` is refused: the server returns log-probs of given tokens only, not distributions. */
export function objectiveOf(sequence: TrainingSequence, logProbs_T: ArrayLike<number>, loss: Loss): Objective {
  const { weights_T, advantages_T, behaviorLogProbs_T } = sequence;
  const gradient_T = new Float32Array(weights_T.length);
  if (loss.kind === "linear-entropy") {
    const message = "a Tinker server returns no entropies to train on: set algorithm.entropy to null";
    throw new MgrpoError("config-invalid", message);
  }
  let total = 0;
  for (let t = 1; t < weights_T.length; t++) {
    const weight = weights_T[t] as number;
    if (weight === 0) continue;
    const logProb = logProbs_T[t] as number;
    if (loss.kind === "linear") {
      total += weight * logProb;
      gradient_T[t] = weight;
      continue;
    }
    const advantage = advantages_T?.[t] ?? 0;
    const ratio = Math.exp(logProb - (behaviorLogProbs_T?.[t] ?? 0));
    const clipped = Math.min(Math.max(ratio, 1 - loss.clipLow), 1 + loss.clipHigh);
    total -= weight * Math.min(ratio * advantage, clipped * advantage);
    // Where the clipped term is the smaller one, the loss does not depend on the log-prob.
    if (ratio * advantage <= clipped * advantage) gradient_T[t] = -weight * ratio * advantage;
  }
  return { loss: total, gradient_T };
}
