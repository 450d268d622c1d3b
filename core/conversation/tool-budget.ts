/**
 * @file The tool budget of one rollout, shared by the main agent and its sub-agents, which can run in different processes:
 *
 *     main's turn   its own calls are charged in text order
 *                   the rest is split evenly among the turn's delegations; each request carries its share
 *                   each report says what was spent; the remainder is available again in the next turn
 *
 * So shares depend on texts and costs, never on timing, and a repeated invocation has the same id. The cost of a model call is known only
 * when it ends and is charged from the next turn on, so the calls of one turn can exceed the budget by their costs.
 */
import type { Allowance, Spent } from "../contracts/rollout.ts";
import type { CallBudget } from "../ports.ts";

const MICRO_USD = 1_000_000;

/**
 * What one conversation has left of its rollout's tool budget, in calls and micro-dollars (millionths of a US dollar). Nothing here throws: a
 * call that the budget does not cover gets a text for the agent.
 */
export interface ToolBudget extends CallBudget {
  /** Splits what is left among n delegations; the first ones get the remainder of the division. Undefined: no limit. */
  split(delegations: number): readonly (Allowance | undefined)[];
  /** Charges what a delegation spent. */
  settle(spent: Spent): void;
  spent(): Spent;
}

/** @param allowance undefined: no limit. */
export function openToolBudget(allowance: Allowance | undefined): ToolBudget {
  const { calls: maxCalls, microUsd: maxMicroUsd } = allowance ?? { calls: null, microUsd: null };
  let calls = 0;
  let microUsd = 0;
  const micro = (usd: number) => Math.round(usd * MICRO_USD);
  return {
    take(usd) {
      const price = micro(usd);
      if (maxCalls !== null && calls >= maxCalls) return `no calls are left: the limit is ${maxCalls}`;
      // A free call is allowed even after a model's cost has overdrawn the budget.
      if (maxMicroUsd !== null && price > Math.max(0, maxMicroUsd - microUsd)) {
        return `no budget is left for this call: the limit is $${maxMicroUsd / MICRO_USD}`;
      }
      calls += 1;
      microUsd += price;
      return undefined;
    },
    addCost(usd) {
      microUsd += micro(usd);
    },
    leftUsd: () => (maxMicroUsd === null ? Number.POSITIVE_INFINITY : Math.max(0, maxMicroUsd - microUsd) / MICRO_USD),
    split(delegations) {
      return Array.from({ length: delegations }, (_, i) =>
        allowance === undefined
          ? undefined
          : {
              calls: share(maxCalls, calls, i, delegations),
              microUsd: share(maxMicroUsd, microUsd, i, delegations),
            },
      );
    },
    settle(spent) {
      calls += spent.calls;
      microUsd += spent.microUsd;
    },
    spent: () => ({ calls, microUsd }),
  };
}

/** The i-th of n parts of what is left. Parts differ by at most 1. */
function share(limit: number | null, spent: number, i: number, n: number): number | null {
  if (limit === null) return null;
  const left = Math.max(0, limit - spent);
  return Math.floor(left / n) + (i < left % n ? 1 : 0);
}
