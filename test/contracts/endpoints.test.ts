/**
 * @file The contract suites of objects, the table and the clock on external endpoints, skipped unless MGRPO_TEST_ENDPOINTS is set. That
 * variable holds one URL for both DynamoDB and S3, or two, separated by a comma: DynamoDB's, then S3's. The standard AWS variables hold
 * the credentials and the region. The tests create their own table and bucket, and delete them.
 */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AwsStore, openAwsStore } from "../../adapters/aws/store.ts";
import { openFreshKeys } from "../../adapters/store-contract/check.ts";
import { multipartChecks } from "../../adapters/store-contract/objects.ts";
import { printedJson } from "../cli/printed.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { tableContract } from "./table.ts";

const [dynamo = "", s3 = dynamo] = (process.env["MGRPO_TEST_ENDPOINTS"] ?? "").split(",").filter(Boolean);

describe.skipIf(dynamo === "")(`endpoints ${dynamo} ${s3}`, () => {
  const table = `mgrpo-test-${randomBytes(4).toString("hex")}`;
  // Opened in beforeAll. The contract suites use the stores only when their tests run.
  let store: AwsStore;
  let inParts: AwsStore;
  let restoreEnvironment = () => {};
  beforeAll(async () => {
    restoreEnvironment = setEnvironment({
      ...{ AWS_ENDPOINT_URL_DYNAMODB: dynamo, AWS_ENDPOINT_URL_S3: s3 },
      ...{ MGRPO_TABLE: table, MGRPO_BUCKET: table },
    });
    const lines = await printedJson("cloud", "setup");
    expect(lines.map(({ outcome }) => outcome)).toEqual([
      "created",
      "created",
      expect.stringMatching(/^(created|none)$/),
    ]);
    store = openAwsStore({ table, bucket: table });
    inParts = openAwsStore({ table, bucket: table, parts: { fromBytes: 5 * 2 ** 20, bytes: 5 * 2 ** 20 } });
  });
  afterAll(async () => {
    store.close();
    inParts.close();
    await printedJson("cloud", "destroy", "--yes", table);
    restoreEnvironment();
  });

  describe("objects", () => objectStoreContract(() => store.objects));
  describe("multipart uploads", () => {
    const keys = openFreshKeys("runs/parts");
    for (const { name, verify } of multipartChecks) test(name, () => verify(inParts.objects, keys));
  });
  describe("table", () => tableContract(() => store.table));
  const ask = () => store.table.get({ pk: "none", sk: "none" });
  describe("clock", () => clockContract(() => store.clock, ask));
});
