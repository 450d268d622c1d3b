/**
 * @file How far the trainer's log-probs are from the sampler's. In a synchronous run both have the same policy version until the first
 * optimizer step on a batch, so any difference beyond rounding is an engine bug, unless the base is quantized: then the sampler may compute less
 * precisely than the trainer. max|ratio - 1| shows bugs that are invisible in the reward curve.
 */

/** How far two policies are apart on the same A tokens. Both numbers are 0 if all log-probs are equal, or if A is 0. */
export interface Mismatch {
  /** Sum over tokens of the k3 estimate of KL(behavior || current): r - 1 - log r, r = current/behavior. */
  readonly klSum: number;
  /** max |r - 1|. */
  readonly maxRatioDeviation: number;
}

/**
 * Compares the trainer's log-probs with those recorded at sampling, both natural logarithms and one per action token. For the mean KL per token,
 * divide `klSum` by A.
 */
export function mismatch(current_A: ArrayLike<number>, behavior_A: ArrayLike<number>): Mismatch {
  let [klSum, maxRatioDeviation] = [0, 0];
  for (let a = 0; a < current_A.length; a++) {
    const logRatio = (current_A[a] ?? Number.NaN) - (behavior_A[a] ?? Number.NaN);
    const deviation = Math.expm1(logRatio);
    klSum += deviation - logRatio;
    maxRatioDeviation = Math.max(maxRatioDeviation, Math.abs(deviation));
  }
  return { klSum, maxRatioDeviation };
}
