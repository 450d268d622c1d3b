/**
 * @file Trajectory alignment (section 4.1, eq 11): rollout k calls a sub-agent d_k times, yet every rollout must have the same weight. Copies
 * are never materialized: each distinct trajectory is computed once, weighted by its share of the group.
 *
 *   resample  every rollout gets d trajectories: a smaller set is padded with random copies, a larger one reduced to a random subset
 *   weighted  the expectation of resample: trajectory i of rollout k has weight 1/(K*d_k), and nothing is copied or dropped
 *   none      the ablation: all trajectories have the same weight, so a rollout with more calls counts more
 *
 * K counts the rollouts with d_k > 0. A rollout without calls contributes nothing, and borrows no trajectories from others.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import type { Random } from "../random.ts";
import { sum } from "../statistics.ts";

/** One sub-agent's group after alignment (eq 11). Row k has d_k entries, one per invocation in call order; a rollout without calls has none. */
export interface Alignment {
  /** [k][i]: copies of invocation i of rollout k in the aligned group; 0 if it is dropped. All 1 unless `resample`. */
  readonly multiplicities: readonly (readonly number[])[];
  /** [k][i]: its share of the aligned group. All shares sum to 1. */
  readonly weights: readonly (readonly number[])[];
  /** Copies added, over all rollouts. */
  readonly duplicated: number;
  /** Trajectories dropped, over all rollouts. */
  readonly dropped: number;
}

/** Aligns one sub-agent's trajectories in one question's group. `calls_K[k]` = d_k; `randomOf(k)` is called only for rollouts that need draws. */
export function align(
  calls_K: readonly number[],
  { mode, d }: AlgorithmConfig["alignment"],
  randomOf: (k: number) => Random,
): Alignment {
  const multiplicities = calls_K.map((d_k, k) =>
    mode === "resample" && d_k > 0 && d_k !== d ? resample(d_k, d, randomOf(k)) : new Array<number>(d_k).fill(1),
  );
  const calls = sum(calls_K);
  const callers = calls_K.filter((d_k) => d_k > 0).length;
  return {
    multiplicities,
    weights: multiplicities.map((copies) =>
      copies.map((m) => (mode === "none" ? m / calls : m / (sum(copies) * callers))),
    ),
    duplicated: sum(multiplicities.flat().map((m) => Math.max(0, m - 1))),
    dropped: multiplicities.flat().filter((m) => m === 0).length,
  };
}

/**
 * Share of rollouts with more than d calls, from the histogram of d_k (entry i counts the rollouts with i calls). Eq 11 requires at most
 * 0.01. Above it, alignment drops too many trajectories: raise d.
 */
export function shareAboveTarget(histogram: readonly number[], d: number): number {
  const rollouts = sum(histogram);
  return rollouts === 0 ? 0 : sum(histogram.slice(d + 1)) / rollouts;
}

function resample(d_k: number, d: number, random: Random): number[] {
  if (d_k > d) {
    const kept = new Set(random.choose(d_k, d));
    return Array.from({ length: d_k }, (_, i) => (kept.has(i) ? 1 : 0));
  }
  const copies = new Array<number>(d_k).fill(1);
  for (let n = d_k; n < d; n++) {
    const i = random.integer(d_k);
    copies[i] = (copies[i] ?? 0) + 1;
  }
  return copies;
}
