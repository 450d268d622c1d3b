/**
 * @file The SDK store on the local cloud over HTTP fulfills the contracts, and so does the direct store in the cloud's own process. The cloud's
 * table database has DynamoDB's limits on batches and pages.
 */
import { afterAll, describe, expect, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { openTableDatabase } from "../../adapters/local-cloud/table-database.ts";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { multipartChecks } from "../../adapters/store-contract/objects.ts";
import { freshDirectory, openLocalStore } from "../fakes/local-store.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { expectPages, tableContract, tableLimitsContract } from "./table.ts";

const keysOf = (count: number) => Array.from({ length: count }, (_, i) => ({ pk: { S: "P" }, sk: { S: String(i) } }));

const store = await openLocalStore();
afterAll(() => store.close());

describe("objects over the S3 API", () => objectStoreContract(() => store.objects));
describe("multipart uploads over the S3 API", () => {
  const parts = { fromBytes: 5 * 2 ** 20, bytes: 5 * 2 ** 20 };
  const keys = openFreshKeys("runs/parts");
  const inParts = openAwsStore({ table: "mgrpo", bucket: "mgrpo", parts });
  afterAll(() => inParts.close());
  for (const { name, verify } of multipartChecks) test(name, () => verify(inParts.objects, keys));
});
describe("table over the DynamoDB API", () => tableContract(() => store.table));
const { direct } = store.cloud;
describe("objects of the direct store", () => objectStoreContract(() => direct.objects));
describe("table of the direct store", () => tableContract(() => direct.table));
describe("limits of the table over the DynamoDB API", () => tableLimitsContract(() => store.table));
describe("limits of the direct store's table", () => tableLimitsContract(() => direct.table));
test.each([
  ["BatchGetItem", "101 keys", { RequestItems: { mgrpo: { Keys: keysOf(101) } } }],
  ["BatchWriteItem", "26 items", { RequestItems: { mgrpo: keysOf(26).map((Item) => ({ PutRequest: { Item } })) } }],
])("%s of %s is refused", async (operation, _size, input) => {
  const database = await openTableDatabase(await freshDirectory());
  await expect(database.call(operation, input)).rejects.toMatchObject({
    // Without the limit, the error would be a ResourceNotFoundException: this database has no table.
    body: { __type: expect.stringMatching(/#ValidationException$/) },
  });
  await database.close();
});
test("a query of the database returns about 1 MB at a time", async () => {
  const database = await openTableDatabase(await freshDirectory());
  const keys = ["pk", "sk"].map((AttributeName) => ({ AttributeName, AttributeType: "S" }));
  const KeySchema = ["HASH", "RANGE"].map((KeyType, i) => ({ AttributeName: keys[i]?.AttributeName, KeyType }));
  const table = { TableName: "pages", BillingMode: "PAY_PER_REQUEST", AttributeDefinitions: keys, KeySchema };
  await database.call("CreateTable", table);
  const described = () => database.call("DescribeTable", { TableName: "pages" });
  await expect.poll(described).toMatchObject({ Table: { TableStatus: "ACTIVE" } });
  const api = {
    putItem: (input: object) => database.call("PutItem", { ...input }),
    query: (input: object) => database.call("Query", { ...input }),
  };
  await expectPages(api, "pages");
  await database.close();
});
describe("clock of the direct store", () => clockContract(() => direct.clock));
const ask = () => store.table.get({ pk: "none", sk: "none" });
describe("clock of the SDK store", () => clockContract(() => store.clock, ask));
