/**
 * @file The contract of Table, for every adapter: the table's checks in `mgrpo cloud check`, and what the port promises beyond them. Then
 * DynamoDB's limits and pages, which this repository's own stores imitate.
 */
import { expect, test } from "vitest";
import { PAGE_BYTES } from "../../adapters/aws/limits.ts";
import type { DynamoApi } from "../../adapters/aws/table.ts";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { tableChecks } from "../../adapters/store-contract/table.ts";
import type { TableKey } from "../../core/contracts/keys.ts";
import type { Table, TableCondition, TableItem } from "../../core/ports.ts";
import { claimRollouts } from "../../core/training/writes.ts";

const keys = openFreshKeys(`CHECK#contract#${process.pid}#${Date.now()}`);

const REFUSED = { code: "record-damaged", retryable: false };

async function insertNew(table: Table, item: TableItem): Promise<TableKey> {
  const key = keys.tableKey();
  expect(await table.insert(key, item)).toBe(true);
  return key;
}

export function tableContract(open: () => Table) {
  for (const { name, verify } of tableChecks) test(name, () => verify(open(), keys));

  test("entries that are undefined are not stored", async () => {
    const key = await insertNew(open(), { map: { a: 1, b: undefined } });
    expect(await open().get(key)).toEqual({ map: { a: 1 } });
  });

  test("a path through a missing map is refused, and so is a number that JSON, DynamoDB or its SDK cannot represent", async () => {
    const key = await insertNew(open(), { a: 1 });
    await expect(open().update({ key, set: [[["m", "x"], 1]], when: [] })).rejects.toMatchObject(REFUSED);
    for (const a of [Number.NaN, 1e-131, 2 ** 53, -(2 ** 53)])
      await expect(open().insert(keys.tableKey(), { a })).rejects.toMatchObject(REFUSED);
    expect(await open().get(key)).toEqual({ a: 1 });
  });
}

/** DynamoDB's limits. This repository's own stores enforce them, so that tests find a write that DynamoDB would refuse. */
export function tableLimitsContract(open: () => Table) {
  test("a condition of more than 4,096 bytes is refused, such as the claim on 62 rollouts in one write", async () => {
    const key = await insertNew(open(), { state: "open", claims: {}, rollouts: {} });
    const claim = (count: number) => {
      const change = claimRollouts({ run: "r", step: 0, group: 0 }, [...Array(count).keys()], "w");
      return open().update({ ...change, key });
    };
    await expect(claim(62)).rejects.toMatchObject(REFUSED);
    expect(await claim(61)).toMatchObject({ applied: true });
  });

  test("a condition of more than 300 operators is refused", async () => {
    const key = await insertNew(open(), { n: 1 });
    const equals: TableCondition = { equals: [["n"], 1] };
    const update = (count: number) =>
      open().update({ key, set: [[["m"], count]], when: Array.from({ length: count }, () => equals) });
    // 150 comparisons and 149 ANDs are 299 operators; 151 and 150 are 301.
    expect(await update(150)).toMatchObject({ applied: true });
    await expect(update(151)).rejects.toMatchObject(REFUSED);
  });

  test("an item of more than 400 KB is refused, whether inserted or grown by an update", async () => {
    const tooLarge = open().insert(keys.tableKey(), { text: "x".repeat(400 * 1024) });
    await expect(tooLarge).rejects.toMatchObject(REFUSED);
    const key = await insertNew(open(), { text: "x".repeat(300 * 1024) });
    const grow = open().update({ key, set: [[["more"], "x".repeat(110 * 1024)]], when: [] });
    await expect(grow).rejects.toMatchObject(REFUSED);
    expect(Object.keys((await open().get(key)) ?? {})).toEqual(["text"]);
  });
}

/** 20 items of 60 KB are 1,200 KB: a query returns 1 MB of them, give or take one item, and the next query returns the rest. */
export async function expectPages(api: Pick<DynamoApi, "putItem" | "query">, TableName: string): Promise<void> {
  const ITEM = 60 * 1024;
  const sortKeys = Array.from({ length: 20 }, (_, i) => `ITEM#${String(i).padStart(2, "0")}`);
  for (const sk of sortKeys) {
    await api.putItem({ TableName, Item: { pk: { S: "P" }, sk: { S: sk }, x: { S: "x".repeat(ITEM) } } });
  }
  const query = {
    TableName,
    KeyConditionExpression: "pk = :pk AND begins_with(sk, :prefix)",
    ExpressionAttributeValues: { ":pk": { S: "P" }, ":prefix": { S: "ITEM#" } },
    ConsistentRead: true,
  };
  const { Items: first = [], LastEvaluatedKey: last } = await api.query(query);
  expect(last).toEqual({ pk: { S: "P" }, sk: { S: sortKeys[first.length - 1] } });
  const bytes = first.reduce((sum, { x }) => sum + (x?.S?.length ?? 0), 0);
  expect(bytes).toBeGreaterThan(PAGE_BYTES - ITEM);
  expect(bytes).toBeLessThanOrEqual(PAGE_BYTES + ITEM);
  const rest = await api.query({ ...query, ...(last && { ExclusiveStartKey: last }) });
  expect([...first, ...(rest.Items ?? [])].map(({ sk }) => sk?.S)).toEqual(sortKeys);
  expect(rest.LastEvaluatedKey).toBeUndefined();
}
