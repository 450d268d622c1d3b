/**
 * @file The objective (eq 14-19), as a loss to minimise: its value, and its derivative by every log-prob, in plain arrays. The engine
 * needs nothing else: with these derivatives as the weights of a linear loss, every option below runs on every engine.
 *
 *   loss = sum_a  weight * ( - m_a * v_a * min(r_a*A, clip(r_a, 1-low, 1+high)*A)  +  beta * kl_a )
 *
 *   r_a  ratio against the anchor        m_a  0 where the mask took the token out, else 1
 *   v_a  truncated importance weight     kl_a distance from the reference; neither masked nor clipped
 *
 * Without `tisCap` the anchor is the behaviour policy and v = 1. With it the two jobs of the ratio come apart: the anchor is the
 * trainer's policy before the step (`proximal`), and v = min(exp(proximal - behaviour), cap), a constant, corrects for the sampler.
 * In the first minibatch r = 1, so the derivative there is the truncated importance weight times A.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";
import { klTerm } from "./kl.ts";
import { ratios_A, throughRatio_A } from "./ratio.ts";

/** One trajectory's part of the loss. A = its action tokens. */
export interface LossTrajectory {
  readonly advantage: number;
  /** Weight of each action token: see `tokenWeights`. */
  readonly tokenWeight: number;
  readonly current_A: ArrayLike<number>;
  /** Log-probs as sampled. */
  readonly behaviour_A: ArrayLike<number>;
  /** Log-probs of the trainer before the first optimizer step on this batch; read when `tisCap` is set. */
  readonly proximal_A: ArrayLike<number>;
  /** Log-probs under the frozen reference; read when the KL coefficient is not 0. */
  readonly reference_A: ArrayLike<number>;
}

export type LossOptions = Pick<AlgorithmConfig, "ratio" | "clipLow" | "clipHigh" | "kl" | "tisCap" | "ratioMask">;

export interface TrajectoryLoss {
  readonly loss: number;
  /** dLoss/dcurrent_a. */
  readonly gradient_A: number[];
  /** Tokens whose term was clipped: the ratio had left the range in the direction that the advantage favours. */
  readonly clipped: number;
}

/** True when the objective is the engines' one-pass `clipped-token` loss. Aggregations are weights and need nothing more. */
export function isClippedToken({ ratio, kl, tisCap, ratioMask }: LossOptions): boolean {
  return ratio === "token" && kl.coefficient === 0 && tisCap === null && ratioMask === null;
}

export function trajectoryLoss(trajectory: LossTrajectory, options: LossOptions): TrajectoryLoss {
  const { advantage, tokenWeight, current_A, behaviour_A, proximal_A, reference_A } = trajectory;
  const { ratio: level, clipLow, clipHigh, kl, tisCap, ratioMask } = options;
  const everything_A = Array.from(current_A, () => true);
  const kept_A = ratioMask
    ? ratios_A(current_A, behaviour_A, everything_A, "token").map((r) => r >= ratioMask.low && r <= ratioMask.high)
    : everything_A;
  const ratio_A = ratios_A(current_A, tisCap === null ? behaviour_A : proximal_A, kept_A, level);
  const truncated_A =
    tisCap === null ? [] : ratios_A(proximal_A, behaviour_A, kept_A, level).map((v) => Math.min(v, tisCap));

  let [loss, clipped] = [0, 0];
  const byRatio_A = ratio_A.map((r, a) => {
    if (!kept_A[a]) return 0;
    const weight = tokenWeight * (truncated_A[a] ?? 1);
    const limited = Math.min(Math.max(r, 1 - clipLow), 1 + clipHigh);
    if (limited * advantage < r * advantage) {
      loss -= weight * limited * advantage;
      clipped++;
      return 0;
    }
    loss -= advantage === 0 ? 0 : weight * r * advantage;
    return -weight * advantage;
  });
  const gradient_A = throughRatio_A(byRatio_A, ratio_A, kept_A, level);
  if (kl.coefficient === 0) return { loss, gradient_A, clipped };

  const withKl_A = gradient_A.map((gradient, a) => {
    const { value, derivative } = klTerm(current_A[a] ?? Number.NaN, reference_A[a] ?? Number.NaN, kl.estimator);
    loss += tokenWeight * kl.coefficient * value;
    return gradient + tokenWeight * kl.coefficient * derivative;
  });
  return { loss, gradient_A: withKl_A, clipped };
}
