/** @file Batches of which the store returns only a part: large items, throttling. All reads are strongly consistent. */
import { marshall } from "@aws-sdk/util-dynamodb";
import { expect, test } from "vitest";
import { type DynamoApi, openTable } from "../../../adapters/aws/table.ts";

const NAME = "mgrpo";
const never = () => expect.unreachable();

/** A table in a store that processes at most `perRequest(i)` keys of its i-th batch request, counted from 0. */
function tableOf(perRequest: (request: number) => number) {
  let requests = 0;
  const batchGetItem: DynamoApi["batchGetItem"] = async ({ RequestItems }) => {
    const { Keys = [] } = RequestItems?.[NAME] ?? {};
    const count = perRequest(requests++);
    const rest = Keys.slice(count);
    return {
      Responses: { [NAME]: Keys.slice(0, count).map((key) => ({ ...key, ...marshall({ text: key["sk"]?.S }) })) },
      ...(rest.length > 0 && { UnprocessedKeys: { [NAME]: { Keys: rest } } }),
    };
  };
  const api = { batchGetItem, getItem: never, putItem: never, updateItem: never, deleteItem: never, query: never };
  return { table: openTable({ api, name: NAME, endpoint: () => "here" }), requests: () => requests };
}

const keys = Array.from({ length: 40 }, (_, i) => ({ pk: "RUN#r", sk: `GROUP#${i}` }));

test("items that are too large for one response are read with as few requests as they need", async () => {
  const { table, requests } = tableOf(() => 3);
  expect(await table.getAll(keys)).toEqual(keys.map(({ sk }) => ({ text: sk })));
  expect(requests()).toBe(Math.ceil(40 / 3));
});

test("a batch of which nothing is ever processed fails as throttled", async () => {
  const { table, requests } = tableOf(() => 0);
  const throttled = { code: "store-unreachable", retryable: true, message: expect.stringContaining("is throttling") };
  await expect(table.getAll(keys)).rejects.toMatchObject(throttled);
  // After pauses of 50, 100, 200, 400, 800 and 1600 ms.
  expect(requests()).toBe(7);
});

test("a batch of which nothing is processed is requested again", async () => {
  const { table, requests } = tableOf((request) => (request < 2 ? 0 : 40));
  expect(await table.getAll(keys)).toEqual(keys.map(({ sk }) => ({ text: sk })));
  expect(requests()).toBe(3);
});

test("every read is strongly consistent, including the read of the rest of a batch", async () => {
  const reads: (boolean | undefined)[] = [];
  const api: DynamoApi = {
    getItem: async ({ ConsistentRead }) => {
      reads.push(ConsistentRead);
      return {};
    },
    batchGetItem: async ({ RequestItems }) => {
      const { Keys = [], ConsistentRead } = RequestItems?.[NAME] ?? {};
      reads.push(ConsistentRead);
      // DynamoDB repeats the setting here; a compatible store may not.
      return Keys.length > 1 ? { UnprocessedKeys: { [NAME]: { Keys: Keys.slice(1) } } } : {};
    },
    query: async ({ ConsistentRead }) => {
      reads.push(ConsistentRead);
      return {};
    },
    updateItem: () => Promise.reject(Object.assign(new Error(), { name: "ConditionalCheckFailedException" })),
    putItem: never,
    deleteItem: never,
  };
  const table = openTable({ api, name: NAME, endpoint: () => "here" });
  const [key = expect.fail()] = keys;
  await table.get(key);
  await table.getAll(keys.slice(0, 3));
  await table.query(key.pk, "GROUP#");
  // Its condition fails, so it reads the item that it returns.
  await table.update({ key, set: [[["n"], 1]], when: [] });
  expect(reads).toEqual(Array(6).fill(true));
});
