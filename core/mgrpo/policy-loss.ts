/**
 * @file The policy term of one action token, in the forms of `policyLoss`. r: its ratio, A: its advantage, sg: stop-gradient.
 *
 *   clip       - min(r A, clip(r) A), clip(r) = min(max(r, 1 - clipLow), 1 + clipHigh): PPO's, as in eq 14-19
 *   dual-clip  the same, but at most - c A for A < 0, c > 1 (Ye et al. 2020, arXiv 1912.09729, eq 5): a bad token whose ratio is huge
 *              no longer dominates the gradient
 *   cispo      - sg(clip(r)) A log p (MiniMax-M1, arXiv 2506.13585, eq 4-5): the weight is clipped, not the term, so every token has a
 *              gradient. With clipLow >= 1 there is no lower bound, as in that paper
 *
 * On policy, where r = 1, all have the same gradient.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/**
 * The policy term of one token, weight included, with its derivatives. With a token's ratio r = exp(logProb - anchor), dLoss/dlogProb =
 * byRatio * r + byLogProb.
 */
export interface PolicyTerm {
  readonly loss: number;
  /** dLoss/dr; 0 for `cispo`. */
  readonly byRatio: number;
  /** dLoss/dlogProb at a constant r; 0 for the other kinds. */
  readonly byLogProb: number;
  /** Whether the term is clipped; for `cispo`, whether its weight is. */
  readonly clipped: boolean;
}

type PolicyLossOptions = Pick<AlgorithmConfig, "policyLoss" | "clipLow" | "clipHigh">;

/** `weight`: of the token in the loss. `logProb`: under the current policy. */
export function policyTerm(
  r: number,
  logProb: number,
  advantage: number,
  weight: number,
  options: PolicyLossOptions,
): PolicyTerm {
  const { policyLoss, clipLow, clipHigh } = options;
  const clippedRatio = Math.min(Math.max(r, 1 - clipLow), 1 + clipHigh);
  if (policyLoss.kind === "cispo") {
    const byLogProb = advantage === 0 ? 0 : -weight * clippedRatio * advantage;
    return { loss: byLogProb * logProb, byRatio: 0, byLogProb, clipped: advantage !== 0 && clippedRatio !== r };
  }
  if (policyLoss.kind === "dual-clip" && advantage < 0 && r > policyLoss.c) {
    return constantTerm(-weight * policyLoss.c * advantage);
  }
  if (clippedRatio * advantage < r * advantage) return constantTerm(-weight * clippedRatio * advantage);
  return {
    loss: advantage === 0 ? 0 : -weight * r * advantage,
    byRatio: -weight * advantage,
    byLogProb: 0,
    clipped: false,
  };
}

const constantTerm = (loss: number): PolicyTerm => ({ loss, byRatio: 0, byLogProb: 0, clipped: true });
