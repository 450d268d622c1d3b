/** @file Whether one of several agents that share a policy captures it: nearly all of the gradient is its own, and another gets worse. */
import type { RunConfig } from "../contracts/config.ts";
import { ownsPolicy, rolesOf } from "../contracts/shared-policy.ts";
import { mean, sum } from "../statistics.ts";
import type { StepSummary } from "./step-summary.ts";

/** Steps in each of the two windows that are compared: the latest, and the one before it. */
const WINDOW = 10;
/** An agent captures the policy if its part of the sum of all agents' gradient norms is larger than this. */
const CAPTURED = 0.9;
/** Another agent gets worse if its mean reward falls by more than this. */
const FALL = 0.05;

export interface Capture {
  readonly owner: string;
  /** The agent that captures the policy, and its part of the sum of gradient norms. */
  readonly by: string;
  readonly part: number;
  /** An agent whose reward fell. */
  readonly loser: string;
  readonly from: number;
  readonly to: number;
}

/** Checks at the end of every window, from the second on. Finds none if the engine reports no gradient norms. */
export function captures({ agents }: RunConfig, steps: readonly StepSummary[]): Capture[] {
  if (steps.length < 2 * WINDOW || steps.length % WINDOW > 0) return [];
  const [before, recent] = [steps.slice(-2 * WINDOW, -WINDOW), steps.slice(-WINDOW)];
  return Object.keys(agents).flatMap((owner): Capture[] => {
    const roles = ownsPolicy(agents, owner) ? rolesOf(agents, owner) : [];
    const norms = roles.map(
      (role) => [role, sum(recent.map(({ training }) => training[role]?.gradientNorm ?? 0))] as const,
    );
    const whole = sum(norms.map(([, norm]) => norm));
    const [by, norm] = norms.find(([, own]) => own > CAPTURED * whole) ?? [];
    if (by === undefined || norm === undefined || roles.length < 2) return [];
    return roles.flatMap((loser): Capture[] => {
      const [from, to] = [meanReward(before, loser), meanReward(recent, loser)];
      const hasFallen = loser !== by && from !== undefined && to !== undefined && from - to > FALL;
      return hasFallen ? [{ owner, by, part: norm / whole, loser, from, to }] : [];
    });
  });
}

function meanReward(steps: readonly StepSummary[], agent: string): number | undefined {
  const rewards = steps.flatMap(({ reward }) => reward[agent] ?? []);
  return rewards.length === 0 ? undefined : mean(rewards);
}
