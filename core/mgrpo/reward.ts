/**
 * @file Rewards: eq 4 for a main rollout, eq 5 for one invocation of a sub-agent. All scores are in [0, 1]. DAPO's soft penalty for length is
 * added to either.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/** R_M, eq 4: `a1*format + a2*correct` of a well-formed rollout, else 0. */
export function mainReward(wellFormed: boolean, correct: number, a: AlgorithmConfig["mainReward"]): number {
  return wellFormed ? a.format + a.correct * correct : 0;
}

/**
 * R_S, eq 5: `b1*format + b2*correctMain + b3*expert` of a well-formed invocation, else 0. `correctMain` is the main agent's raw
 * correctness in the same rollout, not R_M, which its format may have set to 0. `expert`: the score for the subtask itself.
 */
export function subReward(
  wellFormed: boolean,
  correctMain: number,
  expert: number,
  b: AlgorithmConfig["subReward"],
): number {
  return wellFormed ? b.format + b.correct * correctMain + b.expert * expert : 0;
}

/**
 * The soft overlong punishment of DAPO (arXiv 2503.14476, eq 13) times `factor`, in [-factor, 0]: 0 up to `maxTokens - bufferTokens`, then
 * down along a line to -factor at `maxTokens` and above. `tokens`: the whole conversation, since that is what its limit counts.
 */
export function overlongPenalty(
  tokens: number,
  maxTokens: number,
  { bufferTokens, factor }: NonNullable<AlgorithmConfig["overlongPenalty"]>,
): number {
  const excess = tokens - (maxTokens - bufferTokens);
  return excess <= 0 ? 0 : -factor * Math.min(1, excess / bufferTokens);
}
