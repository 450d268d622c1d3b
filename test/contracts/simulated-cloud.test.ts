/**
 * @file The real adapters on the simulated table and bucket fulfill the contracts. The table's billed units are those worked out by hand. The
 * simulation refuses requests that are invalid or beyond AWS's limits, and returns the results of a query page by page.
 */
import { describe, expect, test } from "vitest";
import { EVENT_BYTES } from "../../adapters/aws/limits.ts";
import { openMemoryBucket } from "../../bench/simulate/cloud/bucket.ts";
import { openMemoryTable, type TableUse } from "../../bench/simulate/cloud/dynamo.ts";
import type { Lambda } from "../../bench/simulate/cloud/lambda.ts";
import { EventQueue } from "../../bench/simulate/cloud/queue.ts";
import { openSimulatedStore } from "../../bench/simulate/cloud/store.ts";
import { Meter } from "../../bench/simulate/meter.ts";
import { stream } from "../../core/random.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { expectPages, tableContract, tableLimitsContract } from "./table.ts";

const cloud = {
  table: openMemoryTable(),
  bucket: openMemoryBucket(() => {}),
  meter: new Meter(() => performance.now() / 1000),
  random: stream("contracts"),
};
const store = openSimulatedStore(cloud, { name: "test" });

describe("objects of the simulation", () => objectStoreContract(() => store.objects));
describe("table of the simulation", () => tableContract(() => store.table));
describe("limits of the table of the simulation", () => tableLimitsContract(() => store.table));
describe("clock of the simulation", () => clockContract(() => store.clock));

test("a write is billed per KB of its larger item, old or new, rounded up, even if refused; a consistent read of a small or missing item costs one unit", async () => {
  const used: TableUse[] = [];
  const api = openMemoryTable().api((use) => used.push(use));
  const key = { pk: { S: "P" }, sk: { S: "GROUP" } };
  const insert = { TableName: "t", ConditionExpression: "attribute_not_exists(pk)" };
  // pk, P, sk, GROUP, x: 11 bytes besides the text.
  await api.putItem({ ...insert, Item: { ...key, x: { S: "a".repeat(1024 - 11) } } });
  await expect(api.putItem({ ...insert, Item: { ...key, x: { S: "" } } })).rejects.toThrow();
  const update = { TableName: "t", Key: key, ConditionExpression: "attribute_exists(pk)" };
  const grown = { ":0": { S: "a".repeat(4097 - 11) } };
  await api.updateItem({ ...update, UpdateExpression: "SET x = :0", ExpressionAttributeValues: grown });
  await api.updateItem({ ...update, UpdateExpression: "REMOVE x" });
  await api.getItem({ TableName: "t", Key: key, ConsistentRead: true });
  await api.getItem({ TableName: "t", Key: { pk: { S: "none" }, sk: { S: "none" } }, ConsistentRead: true });
  expect(used.map(({ writeUnits, readUnits }) => [writeUnits, readUnits])).toEqual([
    [1, 0],
    [1, 0],
    [5, 0],
    [5, 0],
    [0, 1],
    [0, 1],
  ]);
  expect(used.map(({ applied }) => applied)).toEqual([true, false, true, true, true, true]);
});

test.each([
  { UpdateExpression: "SET x = :0" },
  { UpdateExpression: "ADD x :0" },
  { UpdateExpression: "REMOVE #0" },
  { ConditionExpression: "y = :0" },
  { ConditionExpression: "attribute_not_exists(#0)" },
])("a placeholder without a name or value is refused: %j", async (expressions) => {
  const api = openMemoryTable().api(() => {});
  const Item = { pk: { S: "P" }, sk: { S: "S" }, x: { N: "1" } };
  await api.putItem({ TableName: "t", Item });
  const { x: _, ...Key } = Item;
  const update = api.updateItem({ TableName: "t", Key, ...expressions });
  await expect(update).rejects.toMatchObject({ name: "ValidationException" });
  expect((await api.getItem({ TableName: "t", Key })).Item).toEqual(Item);
});

test("a batch of more than 100 keys is refused", async () => {
  const Keys = Array.from({ length: 101 }, (_, i) => ({ pk: { S: "P" }, sk: { S: String(i) } }));
  const api = openMemoryTable().api(() => {});
  await expect(api.batchGetItem({ RequestItems: { t: { Keys } } })).rejects.toMatchObject({
    name: "ValidationException",
  });
});

test("a query returns 1 MB at a time", async () => {
  await expectPages(
    openMemoryTable().api(() => {}),
    "t",
  );
});

test("items of exactly 1 MB in total fill a page; with one byte less in each, the page holds one more", async () => {
  const pageOf = async (count: number, bytes: number) => {
    const api = openMemoryTable().api(() => {});
    // pk, P, sk, two digits, x: 8 bytes besides the text.
    for (let i = 10; i < 10 + count; i++) {
      await api.putItem({
        TableName: "t",
        Item: { pk: { S: "P" }, sk: { S: String(i) }, x: { S: "x".repeat(bytes - 8) } },
      });
    }
    const values = { ":pk": { S: "P" }, ":prefix": { S: "" } };
    const { Items = [], LastEvaluatedKey: last } = await api.query({
      TableName: "t",
      ExpressionAttributeValues: values,
    });
    return [Items.length, last?.["sk"]?.S];
  };
  // 16 x 64 KB = 1 MB.
  expect(await pageOf(16, 64 * 1024)).toEqual([16, undefined]);
  expect(await pageOf(18, 64 * 1024)).toEqual([16, "25"]);
  expect(await pageOf(18, 64 * 1024 - 1)).toEqual([17, "26"]);
});

test("an insert with a condition of more than 4,096 bytes is refused", async () => {
  const api = openMemoryTable().api(() => {});
  const insert = (sk: string, name: string) =>
    api.putItem({
      TableName: "t",
      Item: { pk: { S: "P" }, sk: { S: sk } },
      ConditionExpression: `attribute_not_exists(${name})`,
    });
  // attribute_not_exists() is 22 bytes.
  await insert("fits", "x".repeat(4096 - 22));
  await expect(insert("too long", "x".repeat(4096 - 21))).rejects.toMatchObject({ name: "ValidationException" });
});

test("an event of more than 256 KiB is refused", () => {
  const lambda = { hasRoom: true, call: async () => ({ batchItemFailures: [] }) } as unknown as Lambda;
  const queue = new EventQueue("score-rollout", lambda, () => cloud);
  queue.send("x".repeat(EVENT_BYTES));
  expect(() => queue.send("x".repeat(EVENT_BYTES + 1))).toThrow("an event of 262145 bytes: the limit is 262144");
});
