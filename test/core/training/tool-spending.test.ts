/** @file The budget of a run's tools: what reaches a limit exactly is within it, and what exceeds it is named. */
import { expect, test } from "vitest";
import { overToolBudgetReason } from "../../../core/training/tool-spending.ts";

const NONE = { run: "r", calls: 0, microUsd: 0, blocked: 0, maxCalls: null, maxUsd: null };

test("a dollar limit that is reached exactly is not exceeded, whatever the rounding", () => {
  for (let cents = 1; cents <= 1000; cents++) {
    const spent = { ...NONE, calls: 1, microUsd: cents * 10_000, maxUsd: cents / 100 };
    expect([cents, overToolBudgetReason(spent)]).toEqual([cents, undefined]);
    const over = overToolBudgetReason({ ...spent, microUsd: spent.microUsd + 1 });
    expect(over).toContain(`$${cents / 100} for backends (1 call); allow more`);
  }
});

test("a limit on calls is exceeded by the first call beyond it", () => {
  expect(overToolBudgetReason({ ...NONE, calls: 2, maxCalls: 2 })).toBeUndefined();
  expect(overToolBudgetReason({ ...NONE, calls: 2, maxCalls: 1 })).toContain("1 call to backends; allow more");
});
