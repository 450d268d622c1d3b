/**
 * @file Schulman's estimators of KL(current || reference) from tokens that the current policy emitted, per token, with the derivative
 * by the current log-prob. As terms of a loss only k2 has the gradient of the KL itself (its expectation); k3 comes close near the
 * reference; the expected gradient of k1 is zero. k1 is there because the option is customary, not because it restrains anything.
 */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

export interface KlTerm {
  readonly value: number;
  readonly derivative: number;
}

/** With x = current - reference: k1 = x, k2 = x^2/2, k3 = exp(-x) - 1 + x. */
export function klTerm(current: number, reference: number, estimator: AlgorithmConfig["kl"]["estimator"]): KlTerm {
  const x = current - reference;
  if (estimator === "k1") return { value: x, derivative: 1 };
  if (estimator === "k2") return { value: (x * x) / 2, derivative: x };
  return { value: Math.expm1(-x) + x, derivative: -Math.expm1(-x) };
}
