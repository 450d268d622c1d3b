/**
 * @file What one rollout may ask of its tools, and what it has asked for: one budget for the main agent's conversation and those of its
 * sub-agents, although they run in several processes.
 *
 *     main's turn   its own calls take, in the order of the text
 *                   what is left is dealt to the turn's delegations in equal parts, each with its request
 *                   each report comes back with what was spent of its part; the rest is main's again in the next turn
 *
 * So what a conversation may spend follows from what was said, never from who was faster, and an invocation that is asked for again has
 * the same id. Only what a model's answer costs is known afterwards: the calls of one turn may overdraw the budget by that.
 */
import type { Allowance, Spent } from "../contracts/rollout.ts";

const MICRO_USD = 1_000_000;

export interface ToolBudget {
  /**
   * Counts a call, at its price in dollars; what to tell the agent when there is nothing left for it. To be called before anything is
   * awaited, so in the order of the text.
   */
  take(usd: number): string | undefined;
  /** Counts what a call turned out to cost beside its price, in dollars. */
  add(usd: number): void;
  /** What is left, dealt to so many delegations; the first ones get what cannot be divided. Undefined without a limit. */
  deal(delegations: number): readonly (Allowance | undefined)[];
  /** Counts what a delegation spent. */
  settle(spent: Spent): void;
  spent(): Spent;
}

/** @param allowance undefined: as much as it likes. */
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
    deal(delegations) {
      return Array.from({ length: delegations }, (_, i) =>
        allowance === undefined
          ? undefined
          : {
              calls: part(maxCalls, calls, i, delegations),
              microUsd: part(maxMicroUsd, microUsd, i, delegations),
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
function part(limit: number | null, spent: number, i: number, n: number): number | null {
  if (limit === null) return null;
  const left = Math.max(0, limit - spent);
  return Math.floor(left / n) + (i < left % n ? 1 : 0);
}
