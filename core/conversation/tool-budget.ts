/**
 * @file The tool budget of one rollout, shared by the main agent and its sub-agents although they run in several processes:
 *
 *     main's turn   its own calls are charged in text order
 *                   the rest is split equally among the turn's delegations; each request carries its share
 *                   each report says what was spent; the remainder is available again in the next turn
 *
 * So budgets depend on the text alone, never on timing, and a repeated invocation has the same id. The cost of a model call is known only
 * afterward: the calls of one turn can overdraw the budget by that much.
 */
import type { Allowance, Spent } from "../contracts/rollout.ts";

const MICRO_USD = 1_000_000;

export interface ToolBudget {
  /** Charges a call at its price in dollars; if too little is left, returns what to tell the agent. Call it before awaiting: in text order. */
  take(usd: number): string | undefined;
  /** Charges the additional cost of a call, in dollars, once it is known. */
  add(usd: number): void;
  /** Dollars that are left, never below 0. Infinity without a limit. */
  leftUsd(): number;
  /** Splits the rest among n delegations; the first ones get the remainder of the division. Undefined without a limit. */
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
      if (maxCalls !== null && calls >= maxCalls) return `no calls are left: ${maxCalls} were allowed`;
      if (maxMicroUsd !== null && microUsd + price > maxMicroUsd) {
        return `no budget is left for this call: $${maxMicroUsd / MICRO_USD} were allowed`;
      }
      calls += 1;
      microUsd += price;
      return undefined;
    },
    add(usd) {
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

/** The i-th of n equal parts of what is left. */
function share(limit: number | null, spent: number, i: number, n: number): number | null {
  if (limit === null) return null;
  const left = Math.max(0, limit - spent);
  return Math.floor(left / n) + (i < left % n ? 1 : 0);
}
