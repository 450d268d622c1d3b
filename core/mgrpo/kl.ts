/**
 * @file Schulman's estimators of KL(current || reference) per token, on tokens that the current policy emitted, with their derivative with
 * respect to current. As a loss term, only k2 has, in expectation, the gradient of the KL itself; k3's is close to it near the reference.
 * The expected gradient of k1 is zero: it is offered because it is common, but it constrains nothing.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

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
