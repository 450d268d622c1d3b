/** @file What every Table does: the contract checks of stores, and what the port itself promises. */
import { expect, test } from "vitest";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { tableChecks } from "../../adapters/store-contract/table.ts";
import type { Table, TableItem } from "../../core/ports.ts";

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
