/**
 * @file Schulman's estimators of KL(current || reference) per token, on tokens that the current policy emitted, with their derivative with
 * respect to current; and the penalty as a part of the reward. As a loss term, only k2 has, in expectation, the gradient of the KL itself;
 * k3's is close to it near the reference. The expected gradient of k1 is zero: it is offered because it is common, but it constrains nothing.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/** One token's estimate of KL(current || reference), in nats, and its derivative with respect to the current log-prob. */
export interface KlTerm {
  readonly value: number;
  readonly derivative: number;
}

/**
 * `current` and `reference`: a token's log-prob under each policy.
 * With x = current - reference: k1 = x, k2 = x^2/2, k3 = exp(-x) - 1 + x.
 */
export function klTerm(current: number, reference: number, estimator: AlgorithmConfig["kl"]["estimator"]): KlTerm {
  const x = current - reference;
  if (estimator === "k1") return { value: x, derivative: 1 };
  if (estimator === "k2") return { value: (x * x) / 2, derivative: x };
  return { value: Math.expm1(-x) + x, derivative: -Math.expm1(-x) };
}

/**
 * The KL penalty in the reward (InstructGPT, arXiv 2203.02155; REINFORCE++, arXiv 2501.03262, eq 8): each token's advantage loses
 * `coefficient` times the sum of k1 over itself and all later tokens, since its choice does not affect earlier ones. `before`: the policy that
 * the step starts from, so that the penalty is a constant for the gradient.
 */
export function klToGo_A(before_A: ArrayLike<number>, reference_A: ArrayLike<number>, coefficient: number): number[] {
  const toGo_A = new Array<number>(before_A.length).fill(0);
  for (let a = before_A.length - 1; a >= 0; a--) {
    const k1 = (before_A[a] ?? Number.NaN) - (reference_A[a] ?? Number.NaN);
    toGo_A[a] = (toGo_A[a + 1] ?? 0) + coefficient * k1;
  }
  return toGo_A;
}
