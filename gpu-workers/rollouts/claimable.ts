/** @file Which rollouts of a group a worker may claim. Pure: a GROUP record in, rollout indices out. */
import type { GroupRecord } from "../../core/contracts/records.ts";

/** The unfinished rollouts of a group that neither run nor wait here, by who has claimed them. */
export interface ClaimableRollouts {
  /** Unclaimed. */
  readonly free: readonly number[];
  /** Claimed by this worker in a write whose response was lost. */
  readonly owned: readonly number[];
  /** Claimed by a dead worker: rollout -> that worker's id. Suspects run alone. */
  readonly suspects: ReadonlyMap<number, string>;
  /** Claimed by another live worker. */
  readonly elsewhere: readonly number[];
}

/**
 * @param me the id of this worker.
 * @param unclaimable rollouts that run or wait here, or have an outcome.
 */
export function claimableRollouts(
  group: GroupRecord,
  me: string,
  unclaimable: ReadonlySet<number>,
  isDead: (worker: string) => boolean,
): ClaimableRollouts {
  const free: number[] = [];
  const owned: number[] = [];
  const elsewhere: number[] = [];
  const suspects = new Map<number, string>();
  if (group.state === "finalized") return { free, owned, suspects, elsewhere };
  for (let k = 0; k < group.rolloutsPerQuestion; k++) {
    if (group.rollouts[k] || unclaimable.has(k)) continue;
    const claim = group.claims?.[k];
    if (claim === undefined) free.push(k);
    else if (claim === me) owned.push(k);
    else if (isDead(claim)) suspects.set(k, claim);
    else elsewhere.push(k);
  }
  return { free, owned, suspects, elsewhere };
}

export function hasClaimable({ free, owned, suspects }: ClaimableRollouts): boolean {
  return free.length + owned.length + suspects.size > 0;
}
