/**
 * @file The importance ratio of a policy to an earlier one (the anchor) at three granularities, and the backward pass through it. Trajectories
 * are independent; A = the action tokens of one.
 *
 *   token          r_a = exp(current_a - anchor_a)
 *   sequence       r = exp(sum of the differences), the same for every token: the product of the token ratios, as printed in eq 14 and 17
 *   sequence-mean  r = exp(mean of the differences): the geometric mean of the token ratios (GSPO)
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

type Level = AlgorithmConfig["ratio"];

/** The ratio of each token. Tokens that are not kept do not count in a sequence's ratio. */
export function ratios_A(
  current_A: ArrayLike<number>,
  anchor_A: ArrayLike<number>,
  kept_A: readonly boolean[],
  level: Level,
): number[] {
  const differences_A = kept_A.map((_, a) => at(current_A, a) - at(anchor_A, a));
  if (level === "token") return differences_A.map(Math.exp);
  const total = differences_A.reduce((sum, difference, a) => (kept_A[a] ? sum + difference : sum), 0);
  const ratio = Math.exp(level === "sequence" ? total : total / Math.max(1, count(kept_A)));
  return differences_A.map(() => ratio);
}

/**
 * From dLoss/dr_a to dLoss/dcurrent_a. `sequence` gives every kept token the sum of dLoss/dr_a * r_a over the kept tokens, `sequence-mean`
 * the mean.
 */
export function ratioBackward_A(
  gradient_A: readonly number[],
  ratio_A: readonly number[],
  kept_A: readonly boolean[],
  level: Level,
): number[] {
  // A clipped token's gradient stays 0 even if its ratio has overflowed.
  const scaled_A = gradient_A.map((g, a) => (kept_A[a] && g !== 0 ? g * at(ratio_A, a) : 0));
  if (level === "token") return scaled_A;
  const shared = scaled_A.reduce((sum, g) => sum + g, 0);
  const each = level === "sequence" ? shared : shared / Math.max(1, count(kept_A));
  return kept_A.map((kept) => (kept ? each : 0));
}

function at(values: ArrayLike<number>, a: number): number {
  return values[a] ?? Number.NaN;
}

function count(kept_A: readonly boolean[]): number {
  return kept_A.filter(Boolean).length;
}
