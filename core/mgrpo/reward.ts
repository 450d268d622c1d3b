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
 * R_S, eq 5: `b1*format + b2*correct + b3*expert` of a well-formed invocation, else 0. `correct`: the raw correctness of its caller. If the
 * caller is the main agent, that is the correctness of the rollout's answer (not R_M, which is 0 if the rollout is malformed); if it is a
 * sub-agent, its `callerCorrect`. `expert`: the score for the subtask itself.
 */
export function subReward(
  wellFormed: boolean,
  correct: number,
  expert: number,
  b: AlgorithmConfig["subReward"],
): number {
  return wellFormed ? b.format + b.correct * correct + b.expert * expert : 0;
}

/**
 * The `correct` of the invocations that an invocation made: what its own work was worth, which is eq 5 without the format term, as a weighted mean.
 * So correct_{l+1} = (b2*correct_l + b3*expert_l) / (b2 + b3), or correct_l if b2 + b3 is not above 0. The main agent calls level 1, so correct_1
 * is the main agent's correctness. 0 if the invocation is not well-formed: its caller got no report.
 */
export function callerCorrect(
  wellFormed: boolean,
  correct: number,
  expert: number,
  b: AlgorithmConfig["subReward"],
): number {
  if (!wellFormed) return 0;
  const total = b.correct + b.expert;
  return total > 0 ? (b.correct * correct + b.expert * expert) / total : correct;
}

/**
 * The soft overlong punishment of DAPO (arXiv 2503.14476, eq 13) times `factor`, in [-factor, 0]: 0 up to `maxTokens - bufferTokens`, then
 * linearly down to -factor at `maxTokens` and above. `tokens`: all of the trajectory, as `maxTokens` counts them.
 */
export function overlongPenalty(
  tokens: number,
  maxTokens: number,
  { bufferTokens, factor }: NonNullable<AlgorithmConfig["overlongPenalty"]>,
): number {
  const excess = tokens - (maxTokens - bufferTokens);
  return excess <= 0 ? 0 : -factor * Math.min(1, excess / bufferTokens);
}
