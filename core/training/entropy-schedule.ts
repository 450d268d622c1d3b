/** @file The coefficient of the entropy bonus over a run. */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

/** At this progress of the run (progress.ts). Null: 0. */
export function entropyAt(entropy: AlgorithmConfig["entropy"], progress: number): number {
  return entropy === null ? 0 : entropy.start + (entropy.end - entropy.start) * progress;
}
