/**
 * @file Ends rollouts that infrastructure will not let end: tick commits `failed` at the outcome's own key, so a late success and
 * a give-up cannot both count (design rule 2). Whoever lost the race adopts what is there.
 */
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys } from "../contracts/keys.ts";
import type { GroupRecord } from "../contracts/records.ts";
import type { Outcome } from "../contracts/rollout.ts";
import type { Command } from "./commands.ts";

/** Crashes while alone that make a rollout poison. */
export const POISON_CRASHES = 3;

/** Rollouts of open groups that crashed too often: given up, then scored as lost. */
export function giveUp(config: RunConfig, groups: readonly GroupRecord[]): Command[] {
  const limit = Math.min(POISON_CRASHES, config.limits.attempts);
  return groups
    .filter(({ state }) => state === "open")
    .flatMap((group) =>
      undecided(group).flatMap((rollout): Command[] => {
        const crashes = group.crashes[rollout] ?? 0;
        if (crashes < limit) return [];
        const address = { run: group.run, phase: "train", step: group.step, group: group.group, rollout };
        const key = objectKeys.outcome(address);
        const reason = `infrastructure: its worker crashed ${crashes} times while it ran alone`;
        const record: Outcome = { status: "failed", address, questionId: group.questionId, reason };
        return [
          { kind: "commit", key, record },
          { kind: "score", key },
        ];
      }),
    );
}

/** Rollouts of a group that have no score yet. */
export function undecided(group: GroupRecord): number[] {
  return Array.from({ length: group.rolloutsPerQuestion }, (_, k) => k).filter((k) => !group.rollouts[k]);
}
