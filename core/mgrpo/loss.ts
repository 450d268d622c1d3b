/**
 * @file The objective (eq 14-19) as a loss to minimize: its value, and its derivative with respect to every log-prob. With
 * these derivatives as the weights of a linear loss, every option below runs on every engine.
 *
 *   loss = sum_a  weight * ( - m_a * v_a * min(r_a*adv_a, clip(r_a, 1-low, 1+high)*adv_a)  +  beta * kl_a )      other forms: policy-loss.ts
 *
 *   adv_a the trajectory's advantage plus the token's offset: that of its turn, minus the KL penalty to go
 *   r_a   ratio against the anchor        m_a   0 if the token is masked, else 1
 *   v_a   truncated importance weight     kl_a  KL estimate against the reference; neither masked nor clipped
 *
 * Without `tisCap` the anchor is the behavior policy and v = 1. With it, the objective is decoupled: the anchor is the trainer's policy
 * before the step (`proximal`), and the constant v = min(ratio of proximal to behavior, cap) corrects for the mismatch between sampler
 * and trainer. Like r, v is per token or per sequence. Before the first optimizer step r = 1 then, so with token ratios the policy term's
 * derivative is -weight * m * v * adv.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import { klTerm } from "./kl.ts";
import { policyTerm } from "./policy-loss.ts";
import { ratioBackward_A, ratios_A } from "./ratio.ts";

/** One trajectory's input to the loss. `_A`: one entry per action token. */
export interface LossTrajectory {
  readonly advantage: number;
  /** Added to the advantage of each action token. Absent: nothing. */
  readonly offsets_A?: ArrayLike<number>;
  /** Weight of each action token: see `tokenWeights`. */
  readonly tokenWeight: number;
  readonly current_A: ArrayLike<number>;
  /** Log-probs as sampled. */
  readonly behavior_A: ArrayLike<number>;
  /** Log-probs of the trainer before the first optimizer step on this batch. Used only if `tisCap` is set. */
  readonly proximal_A: ArrayLike<number>;
  /** Log-probs of the reference. Used only by a KL term of the loss. */
  readonly reference_A: ArrayLike<number>;
}

/**
 * The settings that the loss depends on, from a parsed `AlgorithmConfig`, which fills in the clip range. Under `kl.in: reward` the KL penalty
 * is not a term of the loss: the caller subtracts it in `offsets_A`.
 */
export type LossOptions = Pick<
  AlgorithmConfig,
  "policyLoss" | "ratio" | "clipLow" | "clipHigh" | "kl" | "tisCap" | "ratioMask"
>;

/** The options that decide which of an engine's losses a step needs. */
type EngineLossOptions = LossOptions & Partial<Pick<AlgorithmConfig, "entropy">>;

/**
 * A trajectory's part of its question's loss: a sum over its A action tokens, weights included. The question's loss is the sum over its
 * trajectories.
 */
export interface TrajectoryLoss {
  readonly loss: number;
  /** dLoss/dcurrent_a. */
  readonly gradient_A: number[];
  /**
   * Number of tokens whose term is clipped: the ratio has left the range in the direction that the advantage favors; under `dual-clip` also
   * those of negative advantage whose ratio exceeds `c`. With `cispo`: tokens whose weight is clipped, in either direction.
   */
  readonly clipped: number;
  /** Their indices, ascending. */
  readonly clippedTokens: readonly number[];
  /** Number of tokens that `ratioMask` leaves without a policy term. */
  readonly masked: number;
  /** Number of unmasked tokens whose importance weight is truncated at `tisCap`. */
  readonly truncated: number;
}

/** Whether the objective is the engines' one-pass `clipped-token` loss. Every aggregation qualifies, since it only sets weights. */
export function isClippedTokenLoss(options: EngineLossOptions): boolean {
  const { policyLoss, ratio, kl, tisCap, ratioMask, entropy = null } = options;
  const isPlain = kl.coefficient === 0 && tisCap === null && ratioMask === null && entropy === null;
  return isPlain && policyLoss.kind === "clip" && ratio === "token";
}

/**
 * Eq 14-19 for one trajectory, by the formula in the file comment, with its gradient. All `_A` inputs have the same length, except that
 * `proximal_A` may be empty without `tisCap`, and `reference_A` without a KL term. The entropy bonus is not included: engines add it.
 */
export function trajectoryLoss(trajectory: LossTrajectory, options: LossOptions): TrajectoryLoss {
  const { current_A, behavior_A, proximal_A } = trajectory;
  const { ratio: level, tisCap } = options;
  const kept_A = keptTokens(trajectory, options);
  const ratio_A = ratios_A(current_A, tisCap === null ? behavior_A : proximal_A, kept_A, level);
  const importance_A = tisCap === null ? [] : ratios_A(proximal_A, behavior_A, kept_A, level);
  const capped_A = importance_A.map((v) => Math.min(v, tisCap ?? v));
  const policy = policyTerms(trajectory, options, kept_A, ratio_A, capped_A);
  const gradient_A =
    options.policyLoss.kind === "cispo"
      ? policy.byLogProb_A
      : ratioBackward_A(policy.byRatio_A, ratio_A, kept_A, level);
  const { clippedTokens } = policy;
  const counts = {
    clipped: clippedTokens.length,
    clippedTokens,
    masked: kept_A.filter((isKept) => !isKept).length,
    truncated: importance_A.filter((v, a) => kept_A[a] && v !== capped_A[a]).length,
  };
  if (options.kl.coefficient === 0 || options.kl.in === "reward") return { loss: policy.loss, gradient_A, ...counts };
  return { ...withKl(trajectory, options.kl, policy.loss, gradient_A), ...counts };
}

/** m_a in the file comment. */
function keptTokens({ current_A, behavior_A }: LossTrajectory, { ratioMask }: LossOptions): boolean[] {
  const all_A = Array.from(current_A, () => true);
  if (ratioMask === null) return all_A;
  return ratios_A(current_A, behavior_A, all_A, "token").map((r) => r >= ratioMask.low && r <= ratioMask.high);
}

/** The policy terms of all tokens: their sum, its derivatives, and the clipped tokens. */
function policyTerms(
  { advantage, offsets_A, tokenWeight, current_A }: LossTrajectory,
  options: LossOptions,
  kept_A: readonly boolean[],
  ratio_A: readonly number[],
  capped_A: readonly number[],
): { loss: number; byRatio_A: number[]; byLogProb_A: number[]; clippedTokens: number[] } {
  const clippedTokens: number[] = [];
  const sums = { loss: 0, byRatio_A: ratio_A.map(() => 0), byLogProb_A: ratio_A.map(() => 0), clippedTokens };
  ratio_A.forEach((r, a) => {
    if (!kept_A[a]) return;
    const weight = tokenWeight * (capped_A[a] ?? 1);
    const term = policyTerm(r, current_A[a] ?? Number.NaN, advantage + (offsets_A?.[a] ?? 0), weight, options);
    sums.loss += term.loss;
    sums.byRatio_A[a] = term.byRatio;
    sums.byLogProb_A[a] = term.byLogProb;
    if (term.clipped) clippedTokens.push(a);
  });
  return sums;
}

/** Adds the KL penalty of every token to the loss and its gradient. */
function withKl(
  { tokenWeight, current_A, reference_A }: LossTrajectory,
  { coefficient, estimator }: LossOptions["kl"],
  policyLoss: number,
  policyGradient_A: readonly number[],
): { loss: number; gradient_A: number[] } {
  let loss = policyLoss;
  const gradient_A = policyGradient_A.map((gradient, a) => {
    const { value, derivative } = klTerm(current_A[a] ?? Number.NaN, reference_A[a] ?? Number.NaN, estimator);
    loss += tokenWeight * coefficient * value;
    return gradient + tokenWeight * coefficient * derivative;
  });
  return { loss, gradient_A };
}
