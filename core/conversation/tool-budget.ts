/**
 * @file The tool budget of one rollout, shared by the main agent and its sub-agents, which can run in different processes:
 *
 *     each turn     its own calls are charged in text order; one whose cost is known only when it ends reserves the most that it may cost
 *                   the rest is split evenly among the turn's delegations; each request carries its share
 *                   each report says what was spent; the rest of its share, and what calls reserved but did not cost, are available
 *                   again in the next turn
 *
 * So concurrent calls that cost no more than they reserve never overspend the budget. Shares depend on texts and costs, never on timing, so
 * a retried invocation has the same id.
 */
import type { Allowance, Spent } from "../contracts/rollout.ts";
import type { CallBudget } from "../ports.ts";

const MICRO_USD = 1_000_000;
/** Maximum significant digits of an amount in a message to the agent. */
const MAX_DIGITS = 8;

/**
 * What one conversation has left of its rollout's tool budget, in calls and micro-dollars (millionths of a US dollar). A call that the
 * budget does not cover gets a message to the agent. `charge`, `reserve` and `addCost` throw `RangeError` for NaN or a negative amount.
 */
export interface ToolBudget extends CallBudget {
  /** Splits what is left among the delegations; the first ones get the remainder of the division. Undefined: no limit. */
  split(delegations: number): readonly (Allowance | undefined)[];
  /** Charges what a delegation spent. */
  settle(spent: Spent): void;
  /** All calls of a turn have ended: what they still reserve is available again. */
  endTurn(): void;
  spent(): Spent;
}

interface ToolBudgetState {
  calls: number;
  microUsd: number;
  /** What calls of this turn may still cost, in micro-dollars. */
  reserved: number;
}

/** @param allowance undefined: no limit. */
export function openToolBudget(allowance: Allowance | undefined): ToolBudget {
  const { calls: maxCalls, microUsd: maxMicroUsd } = allowance ?? { calls: null, microUsd: null };
  const state: ToolBudgetState = { calls: 0, microUsd: 0, reserved: 0 };
  const leftMicroUsd = () =>
    maxMicroUsd === null ? Number.POSITIVE_INFINITY : Math.max(0, maxMicroUsd - state.microUsd - state.reserved);
  const leftUsd = () => leftMicroUsd() / MICRO_USD;
  return {
    charge(usd) {
      const price = micro(usd);
      if (maxCalls !== null && state.calls >= maxCalls) return `no calls are left: the limit is ${maxCalls}`;
      // A free call is allowed even after a model's cost has overdrawn the budget.
      if (price > leftMicroUsd()) return notCovered(usd, leftUsd());
      state.calls += 1;
      state.microUsd += price;
      return undefined;
    },
    reserve(maxUsd) {
      if (micro(maxUsd) > leftMicroUsd()) return notCovered(maxUsd, leftUsd());
      state.reserved += micro(maxUsd);
      return undefined;
    },
    addCost(usd) {
      // If no call costs more than it reserves, what is left stays the same until the turn ends: other calls do not depend on when this one ended.
      state.reserved = Math.max(0, state.reserved - micro(usd));
      state.microUsd += micro(usd);
    },
    leftUsd,
    split(delegations) {
      return Array.from({ length: delegations }, (_, i) =>
        allowance === undefined
          ? undefined
          : {
              calls: share(maxCalls, state.calls, i, delegations),
              microUsd: share(maxMicroUsd, state.microUsd + state.reserved, i, delegations),
            },
      );
    },
    settle(spent) {
      state.calls += spent.calls;
      state.microUsd += spent.microUsd;
    },
    endTurn() {
      state.reserved = 0;
    },
    spent: () => ({ calls: state.calls, microUsd: state.microUsd }),
  };
}

/** NaN, as from a price that a response lacks, would leave the budget without a limit; a negative amount would raise it. */
function micro(usd: number): number {
  if (usd >= 0) return Math.round(usd * MICRO_USD);
  throw new RangeError(`an amount of the tool budget is ${usd}: give dollars, at least 0`);
}

/** The message to the agent about a call that may cost more than is left. */
export function notCovered(maxUsd: number, leftUsd: number): string {
  let digits = 2;
  while (digits < MAX_DIGITS && formatUsd(maxUsd, digits) === formatUsd(leftUsd, digits)) digits++;
  const [max, left] = [formatUsd(maxUsd, digits), formatUsd(leftUsd, digits)];
  return `the remaining budget does not cover this call: it may cost $${max}, and $${left} is left`;
}

const formatUsd = (usd: number, digits: number) => String(Number(usd.toPrecision(digits)));

/** The i-th of n parts of what is left. Parts differ by at most 1. */
function share(limit: number | null, used: number, i: number, n: number): number | null {
  if (limit === null) return null;
  const left = Math.max(0, limit - used);
  return Math.floor(left / n) + (i < left % n ? 1 : 0);
}
