/**
 * @file Trajectories that this process itself committed, kept until their step is over, so that a trainer on the same machine need
 * not load them again. Only what lies in the store under that key is ever remembered, and it is recalled by the digest that its score
 * was made from: bytes that somebody else put there since are not those.
 */
import type { Digest } from "../../core/contracts/names.ts";
import type { AnyTrajectory } from "../../core/contracts/rollout.ts";

export interface TrajectoryCache {
  put(step: number, key: string, trajectory: AnyTrajectory, digest: Digest): void;
  get(step: number, key: string, digest: Digest): AnyTrajectory | undefined;
  /** Drops what belongs to earlier steps. */
  dropBefore(step: number): void;
}

/** Where nobody trains on them. */
export const noTrajectoryCache: TrajectoryCache = { put() {}, get: () => undefined, dropBefore() {} };

export function openTrajectoryCache(): TrajectoryCache {
  const steps = new Map<number, Map<string, { trajectory: AnyTrajectory; digest: Digest }>>();
  return {
    put(step, key, trajectory, digest) {
      const known = steps.get(step) ?? new Map<string, { trajectory: AnyTrajectory; digest: Digest }>();
      steps.set(step, known.set(key, { trajectory, digest }));
    },
    get(step, key, digest) {
      const known = steps.get(step)?.get(key);
      return known?.digest === digest ? known.trajectory : undefined;
    },
    dropBefore(step) {
      for (const known of steps.keys()) if (known < step) steps.delete(known);
    },
  };
}
