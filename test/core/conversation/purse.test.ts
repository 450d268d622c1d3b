/** @file A rollout's purse: nothing is dealt out twice or lost, and what nobody spent comes back. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Spent } from "../../../core/contracts/rollout.ts";
import { openPurse } from "../../../core/conversation/purse.ts";

const calls = (limit: number) => openPurse({ calls: limit, microUsd: null });

test("7 calls, 1 taken: 6 left for 4 delegations, as 2 + 2 + 1 + 1; of 4 spent, 2 come back", () => {
  const purse = calls(7);
  purse.take(0);
  expect(purse.deal(4).map((one) => one?.calls)).toEqual([2, 2, 1, 1]);
  for (const spent of [2, 1, 1, 0]) purse.settle({ calls: spent, microUsd: 5 });
  expect(purse.spent()).toEqual({ calls: 5, microUsd: 20 });
  expect(purse.deal(1)).toEqual([{ calls: 2, microUsd: null }]);
});

test("a price that the rest does not cover is refused, and so is nothing else; what an answer turned out to cost may overdraw it", () => {
  const purse = openPurse({ calls: null, microUsd: 3000 });
  expect([purse.take(0.002), purse.take(0.002), purse.take(0.001)]).toEqual([
    undefined,
    "no budget is left for this call: $0.003 were allowed",
    undefined,
  ]);
  purse.add(0.004);
  expect(purse.deal(2)).toEqual([
    { calls: null, microUsd: 0 },
    { calls: null, microUsd: 0 },
  ]);
});

test("without a limit there is nothing to deal", () => {
  const purse = openPurse(undefined);
  expect([purse.take(1e6), ...purse.deal(2)]).toEqual([undefined, undefined, undefined]);
});

test("however a tree of conversations spends, it never makes more calls than the rollout has", () => {
  const turn = fc.record({ own: fc.nat(4), subs: fc.array(fc.nat(6), { maxLength: 4 }) });
  fc.assert(
    fc.property(fc.nat(20), fc.array(turn, { maxLength: 6 }), (limit, turns) => {
      const purse = calls(limit);
      let made = 0;
      const spend = (from: ReturnType<typeof openPurse>, wanted: number): Spent => {
        for (let i = 0; i < wanted; i++) if (from.take(0) === undefined) made += 1;
        return from.spent();
      };
      for (const { own, subs } of turns) {
        spend(purse, own);
        const parts = purse.deal(subs.length);
        if (subs.length > 0) expect(parts.reduce((sum, part) => sum + (part?.calls ?? 0), 0)).toBe(limit - made);
        for (const spent of subs.map((wanted, i) => spend(openPurse(parts[i]), wanted))) purse.settle(spent);
      }
      expect(made).toBe(purse.spent().calls);
      expect(made).toBeLessThanOrEqual(limit);
    }),
  );
});
