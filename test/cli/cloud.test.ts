/**
 * @file `mgrpo cloud setup` and `destroy`: another program's table or bucket, and a deployment's table, are refused.
 * (What stores refuse: bad-store.test.ts.) `serve` on a port or a folder in use: it ends, instead of waiting. (A `serve` that works:
 * machines.long.test.ts.)
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateTableCommand,
  DeleteItemCommand,
  DynamoDBClient,
  ListTablesCommand,
  PutItemCommand,
  ScanCommand,
} from "@aws-sdk/client-dynamodb";
import { ListBucketsCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeEach, expect, test } from "vitest";
import { lockDirectory } from "../../adapters/local-cloud/lock.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { printedJson } from "./printed.ts";

const store = await openLocalStore();
const home = { ...store.cloud.environment };
const dynamo = new DynamoDBClient();
const s3 = new S3Client();
afterAll(async () => {
  dynamo.destroy();
  s3.destroy();
  await store.close();
});
beforeEach(() => void Object.assign(process.env, home));

test("setup creates or finds table and bucket; destroy requires the name to be repeated and deletes both", async () => {
  Object.assign(process.env, { MGRPO_TABLE: "mine", MGRPO_BUCKET: "mine" });
  const outcomes = async () => (await printedJson("cloud", "setup")).map(({ kind, outcome }) => `${kind} ${outcome}`);
  // The embedded cloud has no lifecycle rules: it deletes abandoned multipart uploads itself.
  expect(await outcomes()).toEqual(["table created", "bucket created", "lifecycle none"]);
  expect(await outcomes()).toEqual(["table exists", "bucket exists", "lifecycle none"]);
  const put = (Key: string) => s3.send(new PutObjectCommand({ Bucket: "mine", Key, Body: "x" }));
  await put("runs/r/config.json");
  for (const { pk, sk } of [tableKeys.archived("r"), tableKeys.verdict("r", "hash", "judge")])
    await dynamo.send(new PutItemCommand({ TableName: "mine", Item: { pk: { S: pk }, sk: { S: sk } } }));
  for (const yes of [[], ["--yes", "min"], ["--yes", "mgrpo"]])
    await expect(printedJson("cloud", "destroy", ...yes)).rejects.toThrow(/table 'mine' and bucket 'mine'.*--yes mine/);
  expect(await printedJson("cloud", "destroy", "--yes", "mine")).toEqual([
    { kind: "destroyed", table: "mine", bucket: "mine" },
  ]);
  expect((await dynamo.send(new ListTablesCommand())).TableNames).toEqual(["mgrpo"]);
  expect((await s3.send(new ListBucketsCommand())).Buckets?.map(({ Name }) => Name)).toEqual(["mgrpo"]);
});

test("another program's table, objects or items are refused, and so is a deployment's table; nothing is deleted", async () => {
  Object.assign(process.env, { MGRPO_TABLE: "orders", MGRPO_BUCKET: "photos" });
  await dynamo.send(
    new CreateTableCommand({
      TableName: "orders",
      BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [{ AttributeName: "id", AttributeType: "N" }],
      KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    }),
  );
  const foreign = {
    code: "config-invalid",
    message: expect.stringMatching(/another program: its key is \(id N HASH\)/),
  };
  await expect(printedJson("cloud", "setup")).rejects.toMatchObject(foreign);
  await expect(printedJson("cloud", "destroy", "--yes", "orders")).rejects.toMatchObject(foreign);
  process.env["MGRPO_TABLE"] = "mgrpo";
  await printedJson("cloud", "setup");
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "runs/r/config.json", Body: "x" }));
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "tree.jpg", Body: "x" }));
  await expect(printedJson("cloud", "destroy", "--yes", "mgrpo")).rejects.toThrow(
    /'photos' holds 'tree.jpg'.*nothing was/,
  );
  expect((await s3.send(new ListObjectsV2Command({ Bucket: "photos" }))).KeyCount).toBe(2);
  for (const [pk, why] of [
    ["USER#1", /table 'mgrpo' holds 'USER#1'.*nothing was deleted/],
    ["DEPLOYMENT", /table 'mgrpo' belongs to a deployment: npx sst remove/],
  ] as const) {
    const key = { pk: { S: pk }, sk: { S: pk } };
    await dynamo.send(new PutItemCommand({ TableName: "mgrpo", Item: key }));
    await expect(printedJson("cloud", "destroy", "--yes", "mgrpo")).rejects.toThrow(why);
    await dynamo.send(new DeleteItemCommand({ TableName: "mgrpo", Key: key }));
  }
  expect((await dynamo.send(new ListTablesCommand())).TableNames).toEqual(expect.arrayContaining(["mgrpo", "orders"]));
});

test("a deployment is found even if the first page of a scan does not reach its item", async () => {
  Object.assign(process.env, { MGRPO_TABLE: "mgrpo", MGRPO_BUCKET: "mgrpo" });
  const put = (pk: string, sk: string, text: string) =>
    dynamo.send(new PutItemCommand({ TableName: "mgrpo", Item: { pk: { S: pk }, sk: { S: sk }, text: { S: text } } }));
  await put("DEPLOYMENT", "DEPLOYMENT", "{}");
  const page = async () => {
    const scan = new ScanCommand({ TableName: "mgrpo", ProjectionExpression: "pk", Limit: 1000 });
    return (await dynamo.send(scan)).Items?.map(({ pk }) => pk?.S);
  };
  // Items come in the order of their hashes, a megabyte at a time.
  for (let group = 0; (await page())?.includes("DEPLOYMENT"); group++)
    await put(`GROUP#r#000000#${group}`, "GROUP", "x".repeat(300_000));
  await expect(printedJson("cloud", "destroy", "--yes", "mgrpo")).rejects.toThrow(/'mgrpo' belongs to a deployment/);
  expect((await dynamo.send(new ListTablesCommand())).TableNames).toContain("mgrpo");
});

test("destroy names the endpoint that does not answer", async () => {
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = "http://127.0.0.1:1";
  await expect(printedJson("cloud", "destroy", "--yes", "mgrpo")).rejects.toThrow(/http:\/\/127\.0\.0\.1:1\b/);
});

test("serve of a folder that another process serves names the option for another one", async () => {
  const dir = mkdtempSync(join(tmpdir(), "mgrpo-serve-"));
  const release = await lockDirectory(dir);
  await expect(printedJson("cloud", "serve", "--dir", dir, "--port", "0")).rejects.toMatchObject({
    code: "store-unreachable",
    message: expect.stringMatching(/ is in use by a process \(pid \d+\): .* or serve another folder with --dir$/),
  });
  await release();
  rmSync(dir, { recursive: true });
});

test("serve on a port in use ends with an error, and leaves no signal handler", async () => {
  const dir = mkdtempSync(join(tmpdir(), "mgrpo-serve-"));
  const port = new URL(home["AWS_ENDPOINT_URL_S3"] ?? "").port;
  const before = process.listenerCount("SIGTERM");
  await expect(printedJson("cloud", "serve", "--dir", dir, "--port", "0", "--s3-port", port)).rejects.toMatchObject({
    code: "cannot-listen",
    message: expect.stringMatching(new RegExp(`port ${port} of 127.0.0.1 is in use: stop what listens there`)),
  });
  expect(process.listenerCount("SIGTERM")).toBe(before);
  rmSync(dir, { recursive: true });
});
