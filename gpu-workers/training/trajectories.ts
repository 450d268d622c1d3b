/**
 * @file Trajectories that this process itself committed, kept until their step is over, so that a trainer on the same machine need
 * not load them again. Only what lies in the store under that key is ever remembered.
 */
import type { Trajectory } from "../../core/contracts/rollout.ts";

export interface Trajectories {
  remember(step: number, key: string, trajectory: Trajectory): void;
  recall(step: number, key: string): Trajectory | undefined;
  /** Drops what belongs to earlier steps. */
  forgetBefore(step: number): void;
}

export function rememberTrajectories(): Trajectories {
  const steps = new Map<number, Map<string, Trajectory>>();
  return {
    remember(step, key, trajectory) {
      const known = steps.get(step) ?? new Map<string, Trajectory>();
      steps.set(step, known.set(key, trajectory));
    },
    recall: (step, key) => steps.get(step)?.get(key),
    forgetBefore(step) {
      for (const known of steps.keys()) if (known < step) steps.delete(known);
    },
  };
}
