/**
 * @file Turn-level advantages, where a recipe rewards turns. After MT-GRPO (Zeng et al. 2025, arXiv 2505.11821), but normalized over all rewarded
 * turns instead of per position (README.md, departure 32):
 *
 *   A[i,turn] = A[i] + turnWeight * (r[i,turn] - mean) / (std + epsilon)
 *
 * with mean and std over all rewarded turns of the group, in which each trajectory has its aligned weight, divided equally among its rewarded
 * turns. Under `advantageScale: none` nothing is divided by std + epsilon. A turn without a reward of its own has A[i] alone.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import { groupAdvantages } from "./advantage.ts";

/** The rewards of a trajectory's turns; null: the turn has none. */
export type TurnRewards = readonly (number | null)[];

/** What is added to the advantage of each turn: one number per entry of its trajectory's rewards. `weights_N`: of the trajectories. */
export function turnOffsets(
  rewards_N: readonly TurnRewards[],
  weights_N: readonly number[],
  { turnWeight, advantageScale, epsilon }: Pick<AlgorithmConfig, "turnWeight" | "advantageScale" | "epsilon">,
): number[][] {
  const turns = rewards_N.flatMap((rewards, i) => {
    const rewarded = rewards.filter((reward) => reward !== null);
    return rewarded.map((reward) => ({ reward, weight: (weights_N[i] ?? 0) / rewarded.length }));
  });
  // Turn rewards of other groups say nothing about the scale of these: under `batch` they are divided by their own std.
  const scale = advantageScale === "batch" ? "std" : advantageScale;
  const { advantages_N } = groupAdvantages(
    turns.map(({ reward }) => reward),
    turns.map(({ weight }) => weight),
    { advantageScale: scale, epsilon },
  );
  let next = 0;
  return rewards_N.map((rewards) =>
    rewards.map((reward) => (reward === null ? 0 : turnWeight * (advantages_N[next++] ?? 0))),
  );
}
