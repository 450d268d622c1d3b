/** @file The coefficient of the entropy bonus over a run. */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/** The coefficient at this progress (progress.ts): linear from `start` to `end`; 0 if `entropy` is null. */
export function entropyCoefficientAt(entropy: AlgorithmConfig["entropy"], progress: number): number {
  return entropy === null ? 0 : entropy.start + (entropy.end - entropy.start) * progress;
}
