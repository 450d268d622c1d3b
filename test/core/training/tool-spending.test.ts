/** @file The budget of a run's tools: what reaches a limit exactly is within it, what exceeds it is named, and how limits are raised. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import { overToolBudgetReason, raiseToolBudget } from "../../../core/training/tool-spending.ts";

const NONE = { run: "r", calls: 0, microUsd: 0, blocked: 0, maxCalls: null, maxUsd: null };

test("a dollar limit that is reached exactly is not exceeded, whatever the rounding", () => {
  for (let cents = 1; cents <= 1000; cents++) {
    const spent = { ...NONE, calls: 1, microUsd: cents * 10_000, maxUsd: cents / 100 };
    expect([cents, overToolBudgetReason(spent)]).toEqual([cents, undefined]);
    const over = overToolBudgetReason({ ...spent, microUsd: spent.microUsd + 1 });
    expect(over).toContain(`$${cents / 100} for backends (1 call); allow more with --budget-tool-usd`);
  }
});

test("a limit on calls is exceeded by the first call beyond it", () => {
  expect(overToolBudgetReason({ ...NONE, calls: 2, maxCalls: 2 })).toBeUndefined();
  expect(overToolBudgetReason({ ...NONE, calls: 2, maxCalls: 1 })).toContain(
    "1 call to backends; allow more with --budget-tool-calls",
  );
});

test("an exceeded limit names the option that raises it; without limits nothing is exceeded", () => {
  const spent = { ...NONE, calls: 3, microUsd: 20_001 };
  expect(overToolBudgetReason(spent)).toBeUndefined();
  expect(overToolBudgetReason({ ...spent, maxCalls: 2 })).toBe(
    "its tools' budget is spent: 2 calls to backends; allow more with --budget-tool-calls <calls in all>, or in a new run with a higher tools.budget.run.calls",
  );
  expect(overToolBudgetReason({ ...spent, maxUsd: 0.02 })).toBe(
    "its tools' budget is spent: $0.02 for backends (3 calls); allow more with --budget-tool-usd <dollars in all>, or in a new run with a higher tools.budget.run.usd",
  );
});

test("raised limits replace those that were read, a limit that is not raised stays, and an absent one is not written", () => {
  const spent = { ...NONE, calls: 3, microUsd: 20_000, maxCalls: 4, maxUsd: 0.02 };
  const key = tableKeys.toolSpending("r");
  expect(raiseToolBudget(spent, { toolCalls: 10, toolUsd: 0.05 })).toEqual({
    key,
    set: [
      [["maxCalls"], 10],
      [["maxUsd"], 0.05],
    ],
    when: [{ equals: [["maxCalls"], 4] }, { equals: [["maxUsd"], 0.02] }],
  });
  expect(raiseToolBudget({ ...spent, maxUsd: null }, {})).toEqual({
    key,
    set: [[["maxCalls"], 4]],
    when: [{ equals: [["maxCalls"], 4] }],
  });
});

test("raising a limit to what is already spent, or one that the run does not have, is refused", () => {
  const spent = { ...NONE, calls: 3, microUsd: 20_000, maxCalls: 4 };
  expect(() => raiseToolBudget(spent, { toolCalls: 3 })).toThrow(
    "run 'r' has already spent 3 of tools.budget.run.calls=4",
  );
  expect(() => raiseToolBudget(spent, { toolUsd: 1 })).toThrow("run 'r' has no tools.budget.run.usd to raise");
  // 20,000 micro-dollars are $0.02.
  const inDollars = { ...spent, maxUsd: 0.03 };
  expect(() => raiseToolBudget(inDollars, { toolUsd: 0.02 })).toThrow(
    "run 'r' has already spent 0.02 of tools.budget.run.usd=0.03",
  );
});
