/**
 * @file The run's budget for calls to backends, on a table in memory: what is counted, when the run halts, and that a repeated
 * payment changes nothing. Also a rollout's allowance.
 */
import { describe, expect, test } from "vitest";
import { allowanceOf, openRunBudget, type RunBudget } from "../../../../adapters/tools/web/external/budget.ts";
import { tableKeys } from "../../../../core/contracts/keys.ts";
import { ToolSpendingRecord } from "../../../../core/contracts/spending.ts";
import type { Table } from "../../../../core/ports.ts";
import { memoryTable } from "../../../fakes/memory-store.ts";
import { repeatingTable, replayingTable } from "../../../fakes/repeating-table.ts";
import { runRecord } from "../../../fakes/scripted-team.ts";

const RUN = { pk: "RUN#r", sk: "RUN" };
const KEY = tableKeys.toolSpending("r");
const NO_LIMITS: { readonly calls: number | null; readonly usd: number | null } = { calls: null, usd: null };

/** A run in progress whose tools have these limits. `lose`: wraps the table in one that loses responses. */
async function openBudget(limits: Partial<typeof NO_LIMITS> = {}, lose = (table: Table) => table) {
  const table = memoryTable();
  await table.insert(RUN, runRecord({ run: "r" }));
  const open = () => openRunBudget("r", { ...NO_LIMITS, ...limits }, lose(table));
  return { table, open, budget: await open() };
}

async function spentIn(table: Table) {
  const { calls, microUsd, blocked } = ToolSpendingRecord.parse(await table.get(KEY));
  return { calls, microUsd, blocked };
}

const halted = {
  code: "run-halted",
  message: expect.stringContaining("run 'r' is halted: its tools' budget is spent"),
};

test("a request is charged its price and its reservation, and its cost replaces the reservation; further costs and withheld pages are counted", async () => {
  const { table, budget } = await openBudget();
  await budget.charge(0.001, 0.5);
  expect(await spentIn(table)).toEqual({ calls: 1, microUsd: 501_000, blocked: 0 });
  await budget.settle(0.5, 0.02);
  await budget.charge(0.001);
  await budget.settle(0, 0);
  await budget.chargeMore(0.3);
  await budget.countBlocked(4);
  expect(await spentIn(table)).toEqual({ calls: 2, microUsd: 322_000, blocked: 4 });
});

test("the reservation of a process that was killed stays", async () => {
  const { table, budget, open } = await openBudget();
  await budget.charge(0, 0.5);
  const next = await open();
  await next.charge(0, 0.2);
  await next.settle(0.2, 0);
  expect(await spentIn(table)).toEqual({ calls: 2, microUsd: 500_000, blocked: 0 });
});

test("a request may reach a limit; one that exceeds it halts the run and reserves nothing", async () => {
  const { table, budget } = await openBudget({ usd: 1 });
  await budget.charge(0.1, 0.9);
  await expect(budget.charge(0.1, 0.5)).rejects.toMatchObject(halted);
  expect(await spentIn(table)).toEqual({ calls: 2, microUsd: 1_100_000, blocked: 0 });
  expect(await table.get(RUN)).toMatchObject({ status: "halted", reason: expect.stringContaining("$1 for backends") });
});

test("a request that was under way when the run halted is settled, so that its answer is kept", async () => {
  const { table, budget } = await openBudget({ calls: 1 });
  await budget.charge(0.1, 0.5);
  await expect(budget.charge(0.1)).rejects.toMatchObject(halted);
  await budget.settle(0.5, 0.2);
  expect(await spentIn(table)).toEqual({ calls: 2, microUsd: 400_000, blocked: 0 });
});

test("concurrent requests of several processes cannot pass the limit together", async () => {
  const { table, budget, open } = await openBudget({ calls: 5 });
  const budgets = [budget, await open(), await open()];
  const charges = await Promise.allSettled(Array.from({ length: 9 }, (_, i) => budgets[i % 3]?.charge(0.001)));
  expect(charges.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
  expect(await spentIn(table)).toMatchObject({ calls: 9 });
});

test("a charge adds to a record that has no numbered payments yet", async () => {
  const { table, budget } = await openBudget();
  await table.update({ key: KEY, set: [[["calls"], 40]], when: [] });
  expect(Object.keys((await table.get(KEY)) ?? {}).sort()).toEqual(
    ["blocked", "calls", "maxCalls", "maxUsd", "microUsd", "run"].sort(),
  );
  await budget.charge(0.002);
  expect(await spentIn(table)).toEqual({ calls: 41, microUsd: 2000, blocked: 0 });
});

describe("a payment that is sent again because its response was lost is counted once", () => {
  const cases: [string, (budget: RunBudget) => Promise<void>][] = [
    ["a charge", (budget) => budget.charge(0.001, 0.5)],
    ["a settlement below the reservation", (budget) => budget.charge(0.001, 0.5).then(() => budget.settle(0.5, 0.1))],
    ["a settlement above the reservation", (budget) => budget.charge(0.001, 0.5).then(() => budget.settle(0.5, 0.7))],
    ["a further cost", (budget) => budget.chargeMore(0.2)],
    ["withheld pages", (budget) => budget.countBlocked(3)],
    ["the release when the run halts", (budget) => expect(budget.charge(0.3, 2)).rejects.toMatchObject(halted)],
  ];
  test.each(cases)("%s", async (_, pay) => {
    const spentWith = async (lose: (table: Table) => Table) => {
      const { table, budget } = await openBudget({ usd: 1.5 }, lose);
      await budget.charge(0.01, 0.2);
      await pay(budget);
      return spentIn(table);
    };
    const once = await spentWith((table) => table);
    expect(await spentWith(repeatingTable)).toEqual(once);
    expect(await spentWith(replayingTable)).toEqual(once);
  });
});

test.each([
  [NO_LIMITS, undefined],
  [
    { calls: 3, usd: null },
    { calls: 3, microUsd: null },
  ],
  [
    { calls: null, usd: 2.01 },
    { calls: null, microUsd: 2_010_000 },
  ],
])(
  "a rollout's allowance holds its limits, in calls and micro-dollars, and is undefined if there are none: %j",
  (limits, allowance) => {
    expect(allowanceOf(limits)).toEqual(allowance);
  },
);
