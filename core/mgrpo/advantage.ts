/**
 * @file Group-relative advantages. One formula covers eq 9-10 for the main agent (N = K rollouts with equal weights) and eq 12-13 for a
 * sub-agent (N = its distinct trajectories, weighted by alignment: which gives the same statistics as the d*K aligned copies).
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

export interface GroupAdvantages {
  readonly advantages_N: number[];
  readonly mean: number;
  /** Population standard deviation; exactly 0 for a group without variance. */
  readonly std: number;
}

/**
 * Smaller reward differences are mere rounding. Adam would amplify a gradient of rounding errors to a full step, so such a group has
 * std 0 and advantage 0 (never the raw reward).
 */
const SAME_REWARD = 1e-9;

/** `(R - mean) / (std + epsilon)` under weights that sum to any positive number; `advantageScale: none` omits the division. */
export function groupAdvantages(
  rewards_N: readonly number[],
  weights_N: readonly number[],
  { advantageScale, epsilon }: Pick<AlgorithmConfig, "advantageScale" | "epsilon">,
): GroupAdvantages {
  const mean = weightedMean(rewards_N, weights_N);
  if (Math.max(...rewards_N) - Math.min(...rewards_N) < SAME_REWARD) {
    return { advantages_N: rewards_N.map(() => 0), mean, std: 0 };
  }
  const squares_N = rewards_N.map((reward) => (reward - mean) ** 2);
  const std = Math.sqrt(weightedMean(squares_N, weights_N));
  const scale = advantageScale === "std" ? std + epsilon : 1;
  return { advantages_N: rewards_N.map((reward) => (reward - mean) / scale), mean, std };
}

function weightedMean(values_N: readonly number[], weights_N: readonly number[]): number {
  let [total, weight] = [0, 0];
  values_N.forEach((value, i) => {
    total += value * (weights_N[i] ?? 0);
    weight += weights_N[i] ?? 0;
  });
  return total / weight;
}
