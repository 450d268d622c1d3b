/** @file Which rollouts of a group a worker may take. Pure: a group's record in, rollout indices out. */
import type { GroupRecord } from "../../core/contracts/records.ts";

export interface Takeable {
  /** Nobody runs them. */
  readonly free: readonly number[];
  /** Claimed by this worker already, by a write whose answer was lost. */
  readonly owned: readonly number[];
  /** A dead worker ran them, by rollout: suspects, to run alone. */
  readonly suspects: ReadonlyMap<number, string>;
  /** A live worker runs them. */
  readonly elsewhere: readonly number[];
}

/** `mine`: rollouts that this process runs or has committed. `me`: its id. */
export function takeable(
  group: GroupRecord,
  me: string,
  mine: ReadonlySet<number>,
  isDead: (worker: string) => boolean,
): Takeable {
  const free: number[] = [];
  const owned: number[] = [];
  const elsewhere: number[] = [];
  const suspects = new Map<number, string>();
  if (group.state === "finalized") return { free, owned, suspects, elsewhere };
  for (let k = 0; k < group.rolloutsPerQuestion; k++) {
    if (group.rollouts[k] || mine.has(k)) continue;
    const claim = group.claims?.[k];
    if (claim === undefined) free.push(k);
    else if (claim === me) owned.push(k);
    else if (isDead(claim)) suspects.set(k, claim);
    else elsewhere.push(k);
  }
  return { free, owned, suspects, elsewhere };
}
