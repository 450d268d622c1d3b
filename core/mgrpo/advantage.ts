/**
 * @file Group-relative advantages. One formula covers eq 9-10 for the main agent (N = K rollouts with equal weights) and eq 12-13 for a
 * sub-agent (N = its distinct trajectories, weighted by alignment, which gives the same statistics as the d*K aligned copies).
 *
 *   baseline   group          the group's mean, as in the paper
 *              leave-one-out  the mean over the other rollouts (RLOO, Ahmadian et al. 2024, arXiv 2402.14740, eq 7). A rollout's trajectories
 *                             are left out together: their rewards share the main agent's correctness
 *   scale      std            the group's standard deviation, as in the paper
 *              batch          that of the step's batch around each group's mean (REINFORCE++ with baseline, arXiv 2501.03262): `batchStd`, by
 *                             which the trainer divides, since a group is finalized before the others
 *              none           1 (Dr. GRPO)
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/**
 * One agent's normalized rewards in one group (eq 9-10, 12-13). `mean` and `std` are weighted, over the whole group and in units of the reward,
 * whatever the baseline and the scale are.
 */
export interface GroupAdvantages {
  readonly advantages_N: number[];
  readonly mean: number;
  /** Population standard deviation; exactly 0 for a zero-variance group. */
  readonly std: number;
}

type AdvantageOptions = Pick<AlgorithmConfig, "advantageScale" | "epsilon"> &
  Partial<Pick<AlgorithmConfig, "baseline">>;

/**
 * Smaller reward differences are mere rounding. Adam would amplify a gradient of rounding errors to a full step, so such a group has
 * std 0 and advantage 0 (never the raw reward).
 */
const REWARD_TOLERANCE = 1e-9;

/**
 * `(R - baseline) / (std + epsilon)` under weights >= 0 that sum to any positive number. A reward of weight 0, such as that of a trajectory that
 * alignment dropped, changes no other's advantage. Only `advantageScale: std` divides. `rollouts_N`: the rollout of each reward, by default one
 * each; a rollout that has no others to compare with gets advantage 0 under `leave-one-out`.
 */
export function groupAdvantages(
  rewards_N: readonly number[],
  weights_N: readonly number[],
  { baseline = "group", advantageScale, epsilon }: AdvantageOptions,
  rollouts_N: readonly number[] = rewards_N.map((_, i) => i),
): GroupAdvantages {
  const mean = weightedMean(rewards_N, weights_N);
  const counted = rewards_N.filter((_, i) => (weights_N[i] ?? 0) > 0);
  if (Math.max(...counted) - Math.min(...counted) < REWARD_TOLERANCE) {
    return { advantages_N: rewards_N.map(() => 0), mean, std: 0 };
  }
  const squares_N = rewards_N.map((reward) => (reward - mean) ** 2);
  const std = Math.sqrt(weightedMean(squares_N, weights_N));
  const scale = advantageScale === "std" ? std + epsilon : 1;
  const baselines_N = baseline === "group" ? rewards_N.map(() => mean) : leaveOneOut(rewards_N, weights_N, rollouts_N);
  return { advantages_N: rewards_N.map((reward, i) => (reward - (baselines_N[i] ?? reward)) / scale), mean, std };
}

/** Standard deviation of a batch's rewards around their groups' means, every group equal: the root mean square of the groups' own. */
export function batchStd(stds_G: readonly number[]): number {
  return Math.sqrt(stds_G.reduce((sum, std) => sum + std * std, 0) / stds_G.length);
}

/** For each reward, the mean over the other rollouts. Undefined if none has a weight. */
function leaveOneOut(
  rewards_N: readonly number[],
  weights_N: readonly number[],
  rollouts_N: readonly number[],
): (number | undefined)[] {
  return rollouts_N.map((rollout) => {
    const others = rollouts_N.flatMap((other, i) => (other === rollout || !weights_N[i] ? [] : [i]));
    if (others.length === 0) return undefined;
    const of = (values_N: readonly number[]) => others.map((i) => values_N[i] ?? 0);
    return weightedMean(of(rewards_N), of(weights_N));
  });
}

function weightedMean(values_N: readonly number[], weights_N: readonly number[]): number {
  let [total, weight] = [0, 0];
  values_N.forEach((value, i) => {
    total += value * (weights_N[i] ?? 0);
    weight += weights_N[i] ?? 0;
  });
  return total / weight;
}
