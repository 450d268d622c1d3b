/** @file A rollout's tool budget: nothing is shared out twice or lost, and unspent shares return. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Spent } from "../../../core/contracts/rollout.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";

const calls = (limit: number) => openToolBudget({ calls: limit, microUsd: null });

test("7 calls, 1 taken: 6 left for 4 delegations, as 2 + 2 + 1 + 1; they spend 4, so 2 return", () => {
  const budget = calls(7);
  budget.take(0);
  expect(budget.split(4).map((one) => one?.calls)).toEqual([2, 2, 1, 1]);
  for (const spent of [2, 1, 1, 0]) budget.settle({ calls: spent, microUsd: 5 });
  expect(budget.spent()).toEqual({ calls: 5, microUsd: 20 });
  expect(budget.split(1)).toEqual([{ calls: 2, microUsd: null }]);
});

test("only a price above the remaining budget is refused; a cost known afterward may overdraw it", () => {
  const budget = openToolBudget({ calls: null, microUsd: 3000 });
  expect(budget.leftUsd()).toBe(0.003);
  expect([budget.take(0.002), budget.take(0.002), budget.take(0.001)]).toEqual([
    undefined,
    "no budget is left for this call: the limit is $0.003",
    undefined,
  ]);
  expect(budget.leftUsd()).toBe(0);
  budget.addCost(0.004);
  expect(budget.leftUsd()).toBe(0);
  expect([budget.take(0), budget.take(0.001)]).toEqual([
    undefined,
    "no budget is left for this call: the limit is $0.003",
  ]);
  expect(budget.split(2)).toEqual([
    { calls: null, microUsd: 0 },
    { calls: null, microUsd: 0 },
  ]);
});

test("without a limit there is nothing to split", () => {
  const budget = openToolBudget(undefined);
  expect(budget.leftUsd()).toBe(Number.POSITIVE_INFINITY);
  expect([budget.take(1e6), ...budget.split(2)]).toEqual([undefined, undefined, undefined]);
});

test("a tree of conversations never makes more calls than the rollout's limit", () => {
  const turn = fc.record({ own: fc.nat(4), subs: fc.array(fc.nat(6), { maxLength: 4 }) });
  fc.assert(
    fc.property(fc.nat(20), fc.array(turn, { maxLength: 6 }), (limit, turns) => {
      const budget = calls(limit);
      let made = 0;
      const spend = (from: ReturnType<typeof openToolBudget>, wanted: number): Spent => {
        for (let i = 0; i < wanted; i++) if (from.take(0) === undefined) made += 1;
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
