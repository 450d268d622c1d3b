/** @file Whether one of several agents that share a policy captures it: nearly all of the gradient is its own, and another gets worse. */
import type { RunConfig } from "../contracts/config.ts";
import { agentsOfPolicy, ownsPolicy } from "../contracts/shared-policy.ts";
import { mean, sum } from "../statistics.ts";
import type { StepSummary } from "./step-summary.ts";

/** Steps in each of the two windows that are compared: the latest, and the one before it. */
const WINDOW = 10;
/** Nearly all of the gradient is an agent's own if its part of the sum of the sharing agents' gradient norms is larger than this. */
const DOMINANT_PART = 0.9;
/** Another agent gets worse if its mean reward falls by more than this. */
const REWARD_FALL = 0.05;

export interface Capture {
  readonly owner: string;
  /** The agent that captures the policy, and its part of the sum of gradient norms. */
  readonly dominant: string;
  readonly part: number;
  /** An agent whose reward fell. */
  readonly loser: string;
  /** Its mean reward in the window before, and in the latest. */
  readonly from: number;
  readonly to: number;
}

/** Checks at the end of every window, from the second on. Finds none if the engine reports no gradient norms. */
export function detectPolicyCapture({ agents }: RunConfig, steps: readonly StepSummary[]): Capture[] {
  if (steps.length < 2 * WINDOW || steps.length % WINDOW > 0) return [];
  const [before, recent] = [steps.slice(-2 * WINDOW, -WINDOW), steps.slice(-WINDOW)];
  return Object.keys(agents).flatMap((owner): Capture[] => {
    const sharing = ownsPolicy(agents, owner) ? agentsOfPolicy(agents, owner) : [];
    const norms = sharing.map(
      (agent) => [agent, sum(recent.map(({ training }) => training[agent]?.gradientNorm ?? 0))] as const,
    );
    const whole = sum(norms.map(([, norm]) => norm));
    const [dominant, norm] = norms.find(([, own]) => own > DOMINANT_PART * whole) ?? [];
    if (dominant === undefined || norm === undefined || sharing.length < 2) return [];
    return sharing.flatMap((loser): Capture[] => {
      const [from, to] = [meanReward(before, loser), meanReward(recent, loser)];
      const hasFallen = loser !== dominant && from !== undefined && to !== undefined && from - to > REWARD_FALL;
      return hasFallen ? [{ owner, dominant, part: norm / whole, loser, from, to }] : [];
    });
  });
}

function meanReward(steps: readonly StepSummary[], agent: string): number | undefined {
  const rewards = steps.flatMap(({ reward }) => reward[agent] ?? []);
  return rewards.length === 0 ? undefined : mean(rewards);
}
