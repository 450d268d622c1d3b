/**
 * @file Abandons rollouts that keep crashing their workers. An outcome with status `failed` is committed at the key that a success would
 * have, so a late success and an abandonment cannot both count. The loser of that race uses the stored outcome.
 */
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys } from "../contracts/keys.ts";
import type { GroupRecord } from "../contracts/records.ts";
import type { Outcome } from "../contracts/rollout.ts";
import type { StoreCommand } from "./store-commands.ts";

/** A rollout that crashes its worker this often while it runs alone is the cause of the crashes. */
const POISON_CRASHES = 3;

/** A rollout is abandoned after this many crashes while it runs alone. */
export const crashLimit = ({ limits }: Pick<RunConfig, "limits">): number => Math.min(POISON_CRASHES, limits.attempts);

/** Abandons the rollouts of open groups that have crashed their workers too often, and scores them as lost. */
export function abandonRollouts(config: RunConfig, groups: readonly GroupRecord[]): StoreCommand[] {
  const limit = crashLimit(config);
  return groups
    .filter(({ state }) => state === "open")
    .flatMap((group) =>
      undecidedRollouts(group).flatMap((rollout) => {
        const crashes = crashesOf(group, rollout);
        return crashes < limit ? [] : abandonRollout(group, rollout, crashes);
      }),
    );
}

function abandonRollout(
  { run, step, group, questionId }: GroupRecord,
  rollout: number,
  crashes: number,
): StoreCommand[] {
  const address = { run, phase: "train", step, group, rollout };
  const key = objectKeys.outcome(address);
  const record: Outcome = { status: "failed", address, questionId, reason: crashReason(crashes) };
  return [
    { kind: "commit", key, record },
    { kind: "score", key },
  ];
}

/** Why a rollout that crashed its workers is abandoned. */
export function crashReason(crashes: number): string {
  const times = crashes === 1 ? "once" : `${crashes} times`;
  return `infrastructure: its worker crashed ${times} while it ran alone`;
}

/** Crashes of workers that ran only this rollout. */
export function crashesOf({ crashes }: GroupRecord, rollout: number): number {
  return Object.values(crashes).filter((crashed) => crashed === rollout).length;
}

/** Rollouts of a group without a score. */
export function undecidedRollouts(group: GroupRecord): number[] {
  return Array.from({ length: group.rolloutsPerQuestion }, (_, k) => k).filter((k) => !group.rollouts[k]);
}
