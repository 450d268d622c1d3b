/**
 * @file Trajectories that this process committed itself, cached until their step is over, so a trainer in the same process need not load
 * them. Only trajectories that won their commit are cached. A lookup names the digest of the record that was scored, so a cached trajectory
 * is never used for a record that has since been replaced.
 */
import type { Digest } from "../../core/contracts/names.ts";
import type { AnyTrajectory } from "../../core/contracts/rollout.ts";

export interface TrajectoryCache {
  put(step: number, key: string, trajectory: AnyTrajectory, digest: Digest): void;
  get(step: number, key: string, digest: Digest): AnyTrajectory | undefined;
  /** Drops the trajectories of earlier steps. */
  dropBefore(step: number): void;
}

/** For workers that do not train: caches nothing. */
export const noTrajectoryCache: TrajectoryCache = { put() {}, get: () => undefined, dropBefore() {} };

export function openTrajectoryCache(): TrajectoryCache {
  const steps = new Map<number, Map<string, { trajectory: AnyTrajectory; digest: Digest }>>();
  return {
    put(step, key, trajectory, digest) {
      const cached = steps.get(step) ?? new Map<string, { trajectory: AnyTrajectory; digest: Digest }>();
      steps.set(step, cached.set(key, { trajectory, digest }));
    },
    get(step, key, digest) {
      const cached = steps.get(step)?.get(key);
      return cached?.digest === digest ? cached.trajectory : undefined;
    },
    dropBefore(step) {
      for (const cached of steps.keys()) if (cached < step) steps.delete(cached);
    },
  };
}
