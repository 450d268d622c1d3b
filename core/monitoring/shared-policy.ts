/** @file Whether one of several agents that share a policy captures it: it makes nearly all of the gradient, and another gets worse. */
import type { RunConfig } from "../contracts/config.ts";
import { ownsPolicy, rolesOf } from "../contracts/shared-policy.ts";
import { mean, sum } from "../statistics.ts";
import type { StepSummary } from "./step-summary.ts";

/** Steps that are compared with as many before them. */
const WINDOW = 10;
/** One agent's part of the sum of all agents' gradient norms. */
const CAPTURED = 0.9;
/** By this much the mean reward of another falls meanwhile. */
const FALL = 0.05;

export interface Capture {
  readonly owner: string;
  /** The agent that makes the gradient, and its part of it. */
  readonly by: string;
  readonly part: number;
  /** An agent whose reward fell. */
  readonly loser: string;
  readonly from: number;
  readonly to: number;
}

/** Looked for every WINDOW steps, once there are twice as many. Where the engine sees no gradients, none is found. */
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
