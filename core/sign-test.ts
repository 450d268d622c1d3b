/** @file The sign test: whether one of two teams that answered the same questions is better. */
import { sum } from "./statistics.ts";

/**
 * The two-sided p-value of the exact sign test (Dixon and Mood 1946): of the questions that exactly one team answers correctly, `a` are the first
 * team's and `b` the second's; if the teams do not differ, each is the first team's with probability 1/2. At most 1; 1 if there are none.
 */
export function signTest(a: number, b: number): number {
  const n = a + b;
  /** [k]: the logarithm of n choose k. */
  const logChoices = [0];
  for (let k = 1; k <= Math.min(a, b); k++) logChoices.push((logChoices[k - 1] ?? 0) + Math.log((n - k + 1) / k));
  return Math.min(1, 2 * sum(logChoices.map((log) => Math.exp(log - n * Math.LN2))));
}
