/**
 * @file How far the trainer's log-probs are from those the tokens were sampled with. Before the first optimizer step of a synchronous
 * run both belong to one policy version, so any distance is a fault of an engine: max|ratio - 1| shows one that no curve shows.
 */
export interface Mismatch {
  /** Sum over tokens of the k3 estimate of KL(behaviour || current): r - 1 - log r, r = current/behaviour. */
  readonly klSum: number;
  /** max |r - 1|. */
  readonly maxRatioDeviation: number;
}

export function mismatch(current_A: ArrayLike<number>, behaviour_A: ArrayLike<number>): Mismatch {
  let [klSum, maxRatioDeviation] = [0, 0];
  for (let a = 0; a < current_A.length; a++) {
    const logRatio = (current_A[a] ?? Number.NaN) - (behaviour_A[a] ?? Number.NaN);
    const excess = Math.expm1(logRatio);
    klSum += excess - logRatio;
    maxRatioDeviation = Math.max(maxRatioDeviation, Math.abs(excess));
  }
  return { klSum, maxRatioDeviation };
}
