/** @file A rollout's tool budget: no part is allotted twice or lost, and what is left of a share becomes available again. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Allowance, Spent } from "../../../core/contracts/rollout.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";

const calls = (limit: number) => openToolBudget({ calls: limit, microUsd: null });

test("7 calls, 1 taken: 6 left for 4 delegations, as 2 + 2 + 1 + 1; they spend 4, so 2 return", () => {
  const budget = calls(7);
  budget.charge(0);
  expect(budget.split(4).map((one) => one?.calls)).toEqual([2, 2, 1, 1]);
  for (const spent of [2, 1, 1, 0]) budget.settle({ calls: spent, microUsd: 5 });
  expect(budget.spent()).toEqual({ calls: 5, microUsd: 20 });
  expect(budget.split(1)).toEqual([{ calls: 2, microUsd: null }]);
});

test("only a price above the remaining budget is refused; a cost for which nothing was reserved may overdraw it", () => {
  const budget = openToolBudget({ calls: null, microUsd: 3000 });
  expect(budget.leftUsd()).toBe(0.003);
  expect([budget.charge(0.002), budget.charge(0.002), budget.charge(0.001)]).toEqual([
    undefined,
    "the remaining budget does not cover this call: it may cost $0.002, and $0.001 is left",
    undefined,
  ]);
  expect(budget.leftUsd()).toBe(0);
  budget.addCost(0.004);
  expect(budget.spent()).toEqual({ calls: 2, microUsd: 7000 });
  expect(budget.leftUsd()).toBe(0);
  expect([budget.charge(0), budget.charge(0.001)]).toEqual([
    undefined,
    "the remaining budget does not cover this call: it may cost $0.001, and $0 is left",
  ]);
  expect(budget.split(2)).toEqual([
    { calls: null, microUsd: 0 },
    { calls: null, microUsd: 0 },
  ]);
});

test("a call reserves $0.002 of $0.003: another call that may cost as much is refused, and the unspent part is available in the next turn", () => {
  const budget = openToolBudget({ calls: null, microUsd: 3000 });
  expect([budget.reserve(0.002), budget.reserve(0.002), budget.reserve(0.0005), budget.charge(0.0001)]).toEqual([
    undefined,
    "the remaining budget does not cover this call: it may cost $0.002, and $0.001 is left",
    undefined,
    undefined,
  ]);
  // 3000 - 2000 - 500 - 100
  expect(budget.split(1)).toEqual([{ calls: null, microUsd: 400 }]);
  budget.addCost(0.0012);
  expect(budget.leftUsd()).toBe(0.0004);
  expect(budget.spent()).toEqual({ calls: 1, microUsd: 1300 });
  budget.settle({ calls: 1, microUsd: 400 });
  budget.endTurn();
  // 3000 - 100 - 1200 - 400
  expect(budget.leftUsd()).toBe(0.0013);
});

test.each([Number.NaN, -0.001])("an amount of %d is refused, and the limit still holds", (usd) => {
  const budget = openToolBudget({ calls: null, microUsd: 3000 });
  for (const spend of [budget.charge, budget.reserve, budget.addCost]) {
    expect(() => spend(usd)).toThrow(
      new RangeError(`an amount of the tool budget is ${usd}: give dollars, at least 0`),
    );
  }
  expect(budget.spent()).toEqual({ calls: 0, microUsd: 0 });
  expect(budget.leftUsd()).toBe(0.003);
});

test("a refusal prints enough digits to show that the cost is above what is left", () => {
  const refusal = (microUsd: number, usd: number) => openToolBudget({ calls: null, microUsd }).reserve(usd);
  expect(refusal(1210, 0.00124)).toMatch(/it may cost \$0\.00124, and \$0\.00121 is left$/);
  expect(refusal(12_300_000, 12.34)).toMatch(/it may cost \$12\.34, and \$12\.3 is left$/);
});

test("without a limit, no call is refused and no share is limited", () => {
  const budget = openToolBudget(undefined);
  expect(budget.leftUsd()).toBe(Number.POSITIVE_INFINITY);
  expect([budget.charge(1e6), budget.reserve(1e6), ...budget.split(2)]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test("a tree of conversations never makes more calls than the rollout's limit", () => {
  const turn = fc.record({ own: fc.nat(4), subs: fc.array(fc.nat(6), { maxLength: 4 }) });
  fc.assert(
    fc.property(fc.nat(20), fc.array(turn, { maxLength: 6 }), (limit, turns) => {
      const budget = calls(limit);
      let made = 0;
      const spend = (from: ReturnType<typeof openToolBudget>, wanted: number): Spent => {
        for (let i = 0; i < wanted; i++) if (from.charge(0) === undefined) made += 1;
        return from.spent();
      };
      for (const { own, subs } of turns) {
        spend(budget, own);
        const parts = budget.split(subs.length);
        if (subs.length > 0) expect(parts.reduce((sum, part) => sum + (part?.calls ?? 0), 0)).toBe(limit - made);
        for (const spent of subs.map((wanted, i) => spend(openToolBudget(parts[i]), wanted))) budget.settle(spent);
      }
      expect(made).toBe(budget.spent().calls);
      expect(made).toBeLessThanOrEqual(limit);
    }),
  );
});

interface PricedCall {
  /** Micro-dollars, charged before it runs. */
  readonly price: number;
  /** The most micro-dollars that it may cost beyond its price. */
  readonly most: number;
  /** What it does cost beyond its price, in percent of `most`. */
  readonly percent: number;
}

interface PricedTurn {
  readonly own: readonly PricedCall[];
  readonly subs: readonly (readonly PricedCall[])[];
}

/** Starts the calls of each turn in order. `order` sorts their callbacks, which then run in that order. */
function play(turns: readonly PricedTurn[], allowance: Allowance | undefined, order: (ends: (() => void)[]) => void) {
  const budget = openToolBudget(allowance);
  const refused: boolean[] = [];
  for (const { own, subs } of turns) {
    const ends: (() => void)[] = [];
    for (const { price, most, percent } of own) {
      const why = budget.charge(price / 1e6) ?? budget.reserve(most / 1e6);
      refused.push(why !== undefined);
      if (why === undefined) ends.push(() => budget.addCost((most * percent) / 1e8));
    }
    const shares = budget.split(subs.length);
    for (const [i, calls] of subs.entries()) {
      const sub = play([{ own: calls, subs: [] }], shares[i], order);
      refused.push(...sub.refused);
      ends.push(() => budget.settle(sub.spent));
    }
    order(ends);
    for (const end of ends) end();
    budget.endTurn();
  }
  return { refused, spent: budget.spent() };
}

test("concurrent calls never overspend, and which ones are refused does not depend on the order in which they end", () => {
  const call = fc.record({ price: fc.nat(300), most: fc.nat(2000), percent: fc.nat(100) });
  const calls = fc.array(call, { maxLength: 5 });
  const turn = fc.record({ own: calls, subs: fc.array(calls, { maxLength: 3 }) });
  fc.assert(
    fc.property(fc.nat(4000), fc.array(turn, { maxLength: 4 }), fc.func(fc.nat(9)), (microUsd, turns, rank) => {
      const allowance = { calls: null, microUsd };
      const inOrder = play(turns, allowance, () => {});
      expect(inOrder.spent.microUsd).toBeLessThanOrEqual(microUsd);
      const ranks = new Map<() => void, number>();
      const shuffle = (ends: (() => void)[]) => {
        for (const [i, end] of ends.entries()) ranks.set(end, rank(i));
        ends.sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
      };
      expect(play(turns, allowance, shuffle)).toEqual(inOrder);
    }),
  );
});
