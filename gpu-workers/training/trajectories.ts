/**
 * @file Trajectories that this process committed itself, cached until their step is over, so a trainer in the same process need not load
 * them. They are cached only if the commit was the first, or if the key is a hash of the content (gateway/sub-agents.ts). A lookup names the
 * digest of the record that was scored, so a cached trajectory is never used for a record that has since been replaced.
 */
import type { Digest } from "../../core/contracts/names.ts";
import type { AnyTrajectory } from "../../core/contracts/rollout.ts";

export interface TrajectoryCache {
  /** `trajectories`: those of the record at the key, in its order. */
  put(step: number, key: string, trajectories: readonly AnyTrajectory[], digest: Digest): void;
  get(step: number, key: string, digest: Digest): readonly AnyTrajectory[] | undefined;
  /** Drops the trajectories of earlier steps. */
  dropBefore(step: number): void;
}

/** For workers that do not train: caches nothing. */
export const noTrajectoryCache: TrajectoryCache = { put() {}, get: () => undefined, dropBefore() {} };

export function openTrajectoryCache(): TrajectoryCache {
  const steps = new Map<number, Map<string, { trajectories: readonly AnyTrajectory[]; digest: Digest }>>();
  return {
    put(step, key, trajectories, digest) {
      const cached = steps.get(step) ?? new Map<string, { trajectories: readonly AnyTrajectory[]; digest: Digest }>();
      steps.set(step, cached.set(key, { trajectories, digest }));
    },
    get(step, key, digest) {
      const cached = steps.get(step)?.get(key);
      return cached?.digest === digest ? cached.trajectories : undefined;
    },
    dropBefore(step) {
      for (const earlier of steps.keys()) if (earlier < step) steps.delete(earlier);
    },
  };
}
