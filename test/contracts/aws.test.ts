/** @file The SDK store on the local cloud over HTTP keeps the contracts, and so does the direct store of its own process. */
import { afterAll, describe, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { multipartChecks } from "../../adapters/store-contract/objects.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { tableContract } from "./table.ts";

const store = await openLocalStore();
afterAll(() => store.close());

describe("objects on S3", () => objectStoreContract(() => store.objects));
describe("objects on S3, in parts", () => {
  const parts = { fromBytes: 5 * 2 ** 20, bytes: 5 * 2 ** 20 };
  const keys = openFreshKeys("runs/parts");
  const inParts = openAwsStore({ table: "mgrpo", bucket: "mgrpo", parts });
  afterAll(() => inParts.close());
  for (const { name, verify } of multipartChecks) test(name, () => verify(inParts.objects, keys));
});
describe("table on DynamoDB", () => tableContract(() => store.table));
const { direct } = store.cloud;
describe("objects of the direct store", () => objectStoreContract(() => direct.objects));
describe("table of the direct store", () => tableContract(() => direct.table));
describe("clock of the direct store", () => clockContract(() => direct.clock));
describe("clock of the store", () => clockContract(() => store.clock));
