/** @file Numbered payments: each counts once, however often and however late it is sent; costs are never too low; the record stays small. */
import { setImmediate as nextEventLoopTurn } from "node:timers/promises";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { itemBytes } from "../../../adapters/aws/item-bytes.ts";
import { tableKeys } from "../../../core/contracts/keys.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { Table } from "../../../core/ports.ts";
import { NumberedPayments, PAYERS_KEPT } from "../../../core/training/numbered-payments.ts";
import { memoryTable } from "../../fakes/memory-store.ts";
import { replayingTable } from "../../fakes/repeating-table.ts";

const KEY = tableKeys.agentSpending("r");
const NONE = { run: "r", turns: 0, microUsd: 0 };
const payer = (table: Table) => new NumberedPayments(table, KEY, NONE);

/** Registers this many payers, each with one payment. */
async function registered(table: Table, payers: number): Promise<void> {
  for (let i = 0; i < payers; i++) await payer(table).add({ turns: 1 });
}

test("the first payer creates the record; payers are numbered, and so are the payments of each", async () => {
  const table = memoryTable();
  const [one, other] = [payer(table), payer(table)];
  expect(await one.add({ turns: 1, microUsd: 5 })).toEqual({
    ...NONE,
    turns: 1,
    microUsd: 5,
    payers: 1,
    payments: { 1: 1 },
  });
  await other.add({ microUsd: 7 });
  await one.add({ microUsd: -2 });
  expect(await table.get(KEY)).toEqual({ ...NONE, turns: 1, microUsd: 10, payers: 2, payments: { 1: 2, 2: 1 } });
});

test("concurrent payments of several payers count once each, although each is sent again, at once and late", async () => {
  const payment = fc.record({ by: fc.nat(2), turns: fc.nat(3), microUsd: fc.integer({ min: -50, max: 100 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(payment, { maxLength: 12 }), async (payments) => {
      const table = memoryTable();
      const payers = [0, 1, 2].map(() => payer(replayingTable(table)));
      await Promise.all(payments.map(({ by, ...sums }) => payers[by]?.add(sums)));
      const sum = (name: "turns" | "microUsd") => payments.reduce((total, one) => total + one[name], 0);
      if (payments.length > 0)
        expect(await table.get(KEY)).toMatchObject({ turns: sum("turns"), microUsd: sum("microUsd") });
    }),
    { numRuns: 50 },
  );
});

test("a payment that fails also fails those that wait for it, unsent; the next one registers again and counts, even if the failed one arrives late", async () => {
  const table = memoryTable();
  const outage = new MgrpoError("store-unreachable", "no answer", { retryable: true });
  const late: Parameters<Table["update"]>[0][] = [];
  let fails = false;
  const failing: Table = {
    ...table,
    async update(change) {
      if (!fails) return table.update(change);
      late.push(change);
      throw outage;
    },
  };
  const payments = payer(failing);
  await payments.add({ microUsd: 1 });
  fails = true;
  const settled = await Promise.allSettled([10, 100].map((microUsd) => payments.add({ microUsd })));
  expect(settled).toEqual([10, 100].map(() => ({ status: "rejected", reason: outage })));
  expect(late).toHaveLength(1);
  fails = false;
  // The failed payment arrives before the next one, and once more after it.
  for (const change of late) await table.update(change);
  await payments.add({ microUsd: 1000 });
  for (const change of late) await table.update(change);
  expect(await table.get(KEY)).toEqual({ ...NONE, microUsd: 1011, payers: 2, payments: { 1: 2, 2: 1 } });
});

test("a payer sends one write at a time, even if callers repeat payments as soon as they fail", async () => {
  const table = memoryTable();
  let [sent, underWay, most] = [0, 0, 0];
  const payments = payer({
    ...table,
    async update(change) {
      most = Math.max(most, ++underWay);
      await nextEventLoopTurn();
      underWay--;
      if (sent++ === 0) throw new Error("no answer");
      return table.update(change);
    },
  });
  const pay = (sums: Record<string, number>) => payments.add(sums).catch(() => payments.add(sums));
  await Promise.allSettled([pay({ turns: 1 }), pay({ turns: 1 }), pay({ turns: 1 })]);
  await payments.add({ turns: 1 });
  expect(most).toBe(1);
});

test("the payment after one that failed and never arrived counts", async () => {
  const table = memoryTable();
  let fails = true;
  const payments = payer({
    ...table,
    update: (change) =>
      fails && change.add?.[0]?.[0][0] === "microUsd" ? Promise.reject("lost") : table.update(change),
  });
  await expect(payments.add({ microUsd: 10 })).rejects.toBe("lost");
  fails = false;
  await payments.add({ microUsd: 3 });
  expect(await table.get(KEY)).toMatchObject({ microUsd: 3 });
});

test("the record keeps only the latest payers, in less than 2 KB", async () => {
  const table = memoryTable();
  await table.insert(KEY, { ...NONE, payers: 12_345, payments: {} });
  await registered(table, PAYERS_KEPT + 20);
  const record = (await table.get(KEY)) ?? {};
  const numbers = Object.keys(record["payments"] as object).map(Number);
  expect(numbers).toHaveLength(PAYERS_KEPT);
  expect(Math.min(...numbers)).toBe(12_345 + 20 + 1);
  expect(record["turns"]).toBe(PAYERS_KEPT + 20);
  expect(itemBytes(record)).toBeLessThan(2048);
});

test("numbers that were skipped do not keep forgotten payers in the record", async () => {
  const table = memoryTable();
  await registered(table, 3);
  await table.update({ key: KEY, add: [[["payers"], PAYERS_KEPT]], when: [] });
  await registered(table, 1);
  expect(await table.get(KEY)).toMatchObject({ payments: { [PAYERS_KEPT + 4]: 1 } });
  expect(Object.keys((await table.get(KEY))?.["payments"] as object)).toHaveLength(1);
});

test("one write removes at most 100 forgotten payers", async () => {
  const table = memoryTable();
  const payments = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [i + 1, 1]));
  await table.insert(KEY, { ...NONE, payers: 1000, payments });
  const kept = async () => Object.keys((await table.get(KEY))?.["payments"] as object).length;
  await registered(table, 1);
  expect(await kept()).toBe(50 + 1);
  await registered(table, 1);
  expect(await kept()).toBe(2);
});

test("a damaged count of payments is refused with the record's key", async () => {
  const table = memoryTable();
  await table.insert(KEY, { ...NONE, payers: 1, payments: { 1: "one" } });
  await expect(payer(table).add({ turns: 1 })).rejects.toMatchObject({
    code: "record-damaged",
    message: "payers of RUN#r AGENTS: payments.1: Invalid input: expected number, received string",
  });
});

test("a forgotten payer registers again and repeats its payment, which counts once", async () => {
  const table = memoryTable();
  const idle = payer(table);
  await idle.add({ microUsd: 50 });
  await registered(table, PAYERS_KEPT);
  expect(await idle.add({ turns: 0, microUsd: 7 })).toMatchObject({ microUsd: 57, payers: PAYERS_KEPT + 2 });
  await idle.add({ microUsd: 3 });
  expect(await table.get(KEY)).toMatchObject({ microUsd: 60, turns: PAYERS_KEPT });
});

test("a forgotten payer's payment that lowers a sum does not count; its next payment registers it again and counts", async () => {
  const table = memoryTable();
  const idle = payer(table);
  await idle.add({ microUsd: 50 });
  await registered(table, PAYERS_KEPT);
  expect(await idle.add({ turns: 1, microUsd: -20 })).toMatchObject({ turns: PAYERS_KEPT, microUsd: 50 });
  await idle.add({ microUsd: 7 });
  await idle.add({ microUsd: -3 });
  expect(await table.get(KEY)).toMatchObject({ microUsd: 54 });
});
