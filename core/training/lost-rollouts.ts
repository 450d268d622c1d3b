/**
 * @file Rollouts lost to infrastructure or judges. They are left out of every mean and batch, counted and listed. If more than
 * `limits.lostFraction` of the rollouts of ten steps are lost, the run is halted: an outage must not look like training. A user who resumes
 * it accepts these losses: after that, only those of later steps count.
 */
import type { RunConfig } from "../contracts/config.ts";
import type { GroupRecord } from "../contracts/records.ts";

/** Steps over which lost rollouts are counted. */
export const LOST_ROLLOUTS_WINDOW = 10;

/** The lost rollouts of these groups, as `<step>/<group>/<rollout>: <reason>`. */
export function lostRollouts(groups: readonly GroupRecord[]): string[] {
  return groups.flatMap(({ step, group, rollouts }) =>
    Object.entries(rollouts).flatMap(([k, score]) =>
      "excluded" in score ? [`${step}/${group}/${k}: ${score.excluded}`] : [],
    ),
  );
}

/** Why the run must halt, given the groups of the last ten steps, without those whose losses have halted it before. Undefined if it need not. */
export function tooManyLostReason(config: RunConfig, window: readonly GroupRecord[]): string | undefined {
  const lost = lostRollouts(window);
  const planned = LOST_ROLLOUTS_WINDOW * config.questionsPerStep * config.rolloutsPerQuestion;
  // Larger than planned where dynamic sampling has added groups.
  const inWindow = window.reduce((sum, group) => sum + group.rolloutsPerQuestion, 0);
  const rollouts = Math.max(planned, inWindow);
  if (lost.length <= config.limits.lostFraction * rollouts) return undefined;
  return (
    `${lost.length} rollout${lost.length === 1 ? "" : "s"} lost within ${LOST_ROLLOUTS_WINDOW} steps, more than limits.lostFraction ` +
    `${config.limits.lostFraction} of ${rollouts}; the last: ${lost.at(-1)}. Fix the cause, then resume`
  );
}
