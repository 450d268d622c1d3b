import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import type { AgentBatch } from "../contracts/records.ts";

/** What the weight of a trajectory's tokens depends on. */
export interface BatchEntry {
  /** Index of its group in the step. */
  readonly group: number;
  /** Its share of its group's loss: see `trajectoryWeights`. */
  readonly weight: number;
  /** Tokens that its policy emitted. */
  readonly actionTokens: number;
}

/** Share of its group's loss of each finalized trajectory: sums to 1. */
export function trajectoryWeights({ trajectories, weights }: Pick<AgentBatch, "trajectories" | "weights">): number[] {
  return trajectories.map((_, i) => weights[weights.length === 1 ? 0 : i] ?? 0);
}

/**
 * The weight of each action token of each trajectory. w: its share of its group's loss, T: its action tokens.
 *
 *   trajectory-mean  w / T: the mean over its tokens, then the weighted mean over trajectories
 *   token-mean       W * w / sum(w*T) over its question (W = sum w): every token of a question counts the same (DAPO)
 *   constant         w / L: the sum over its tokens by one constant, so that length changes nothing (Dr. GRPO)
 *
 * Tokens that a ratio mask takes out of the loss stay in T: a mask never makes its neighbours louder.
 */
export function tokenWeights(
  entries: readonly BatchEntry[],
  { aggregation, constantTokens }: Pick<AlgorithmConfig, "aggregation" | "constantTokens">,
): number[] {
  const [shares, tokens] = [new Map<number, number>(), new Map<number, number>()];
  for (const { group, weight, actionTokens } of entries) {
    shares.set(group, (shares.get(group) ?? 0) + weight);
    tokens.set(group, (tokens.get(group) ?? 0) + weight * actionTokens);
  }
  return entries.map(({ group, weight, actionTokens }) => {
    if (weight === 0 || actionTokens === 0) return 0;
    if (aggregation === "trajectory-mean") return weight / actionTokens;
    if (aggregation === "constant") return weight / constantTokens;
    return ((shares.get(group) ?? 0) * weight) / (tokens.get(group) ?? 1);
  });
}

/**
 * At most `count` minibatches, none empty: entry i goes to minibatch i mod count, so that each holds trajectories of every question.
 * Each stands for the whole batch: the caller multiplies its gradient by the number of minibatches.
 */
export function splitMinibatches<T>(entries: readonly T[], count: number): T[][] {
  const parts = Math.min(count, entries.length);
  return Array.from({ length: parts }, (_, part) => entries.filter((_entry, i) => i % parts === part));
}
