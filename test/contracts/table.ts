/** @file What every Table does: the contract checks of stores, and what the port itself promises. */
import { expect, test } from "vitest";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { tableChecks } from "../../adapters/store-contract/table.ts";
import type { Table, TableCondition, TableItem } from "../../core/ports.ts";
import { claimRollouts } from "../../core/training/writes.ts";

const keys = openFreshKeys(`CONTRACT#${process.pid}#${Date.now()}`);

export function tableContract(open: () => Table) {
  async function inserted(item: TableItem) {
    const key = keys.tableKey();
    expect(await open().insert(key, item)).toBe(true);
    return key;
  }

  for (const { name, verify } of tableChecks) test(name, () => verify(open(), keys));

  test("undefined entries are left out", async () => {
    const key = await inserted({ map: { a: 1, b: undefined } });
    expect(await open().get(key)).toEqual({ map: { a: 1 } });
  });

  test("a path through a map that is not there is refused, and so is a number that JSON has not", async () => {
    const key = await inserted({ a: 1 });
    const refused = { code: "record-damaged", retryable: false };
    await expect(open().update({ key, set: [[["m", "x"], 1]], when: [] })).rejects.toMatchObject(refused);
    await expect(open().insert(keys.tableKey(), { a: Number.NaN })).rejects.toMatchObject(refused);
    expect(await open().get(key)).toEqual({ a: 1 });
  });
}

const REFUSED = { code: "record-damaged", retryable: false };

/** What DynamoDB refuses, and so must every store that stands in for it. */
export function tableLimitsContract(open: () => Table) {
  async function inserted(item: TableItem) {
    const key = keys.tableKey();
    expect(await open().insert(key, item)).toBe(true);
    return key;
  }

  test("a condition of more than 4,096 bytes is refused: the claim of 62 rollouts in one write", async () => {
    const key = await inserted({ state: "open", claims: {}, rollouts: {} });
    const claim = (count: number) => {
      const change = claimRollouts({ run: "r", step: 0, group: 0 }, [...Array(count).keys()], "w");
      return open().update({ ...change, key });
    };
    await expect(claim(62)).rejects.toMatchObject(REFUSED);
    expect(await claim(50)).toMatchObject({ applied: true });
  });

  test("a condition of more than 300 operators is refused", async () => {
    const key = await inserted({ n: 1 });
    const equals: TableCondition = { equals: [["n"], 1] };
    const update = (count: number) =>
      open().update({ key, set: [[["m"], count]], when: Array.from({ length: count }, () => equals) });
    // 150 comparisons and 149 ANDs; 151 and 150.
    expect(await update(150)).toMatchObject({ applied: true });
    await expect(update(151)).rejects.toMatchObject(REFUSED);
  });

  test("an item of more than 400 KB is refused, inserted or grown", async () => {
    const key = keys.tableKey();
    await expect(open().insert(key, { text: "x".repeat(400 * 1024) })).rejects.toMatchObject(REFUSED);
    expect(await open().insert(key, { text: "x".repeat(300 * 1024) })).toBe(true);
    const grow = open().update({ key, set: [[["more"], "x".repeat(110 * 1024)]], when: [] });
    await expect(grow).rejects.toMatchObject(REFUSED);
    expect(Object.keys((await open().get(key)) ?? {})).toEqual(["text"]);
  });
}
