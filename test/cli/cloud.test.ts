/** @file `mgrpo cloud setup` and `destroy`: what is not theirs is refused, and every refusal of AWS said in one clear line. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { CreateTableCommand, DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";
import { ListBucketsCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { openLocalStore } from "../fakes/local-store.ts";
import { told } from "./printed.ts";

const store = await openLocalStore();
const home = { ...store.cloud.environment };
const dynamo = new DynamoDBClient();
const s3 = new S3Client();
const servers: Server[] = [];
afterAll(async () => {
  dynamo.destroy();
  s3.destroy();
  await store.close();
});
beforeEach(() => void Object.assign(process.env, home));
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server): Promise<string> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("setup makes both and finds both; destroy wants the name repeated and takes both away", async () => {
  Object.assign(process.env, { MGRPO_TABLE: "mine", MGRPO_BUCKET: "mine" });
  const found = async () => (await told("cloud", "setup")).map(({ kind, found: how }) => `${kind} ${how}`);
  expect(await found()).toEqual(["table created", "bucket created"]);
  expect(await found()).toEqual(["table there", "bucket there"]);
  const put = (Key: string) => s3.send(new PutObjectCommand({ Bucket: "mine", Key, Body: "x" }));
  await put("runs/r/config.json");
  for (const yes of [[], ["--yes", "min"], ["--yes", "mgrpo"]])
    await expect(told("cloud", "destroy", ...yes)).rejects.toThrow(/table 'mine' and bucket 'mine'.*--yes mine/);
  expect(await told("cloud", "destroy", "--yes", "mine")).toEqual([
    { kind: "destroyed", table: "mine", bucket: "mine" },
  ]);
  expect((await dynamo.send(new ListTablesCommand())).TableNames).toEqual(["mgrpo"]);
  expect((await s3.send(new ListBucketsCommand())).Buckets?.map(({ Name }) => Name)).toEqual(["mgrpo"]);
});

test("a table with other keys, a bucket with other objects: refused, nothing lost", async () => {
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
    message: expect.stringMatching(/another program's: its key is \(id N HASH\)/),
  };
  await expect(told("cloud", "setup")).rejects.toMatchObject(foreign);
  await expect(told("cloud", "destroy", "--yes", "orders")).rejects.toMatchObject(foreign);
  process.env["MGRPO_TABLE"] = "mgrpo";
  await told("cloud", "setup");
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "runs/r/config.json", Body: "x" }));
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "tree.jpg", Body: "x" }));
  await expect(told("cloud", "destroy", "--yes", "mgrpo")).rejects.toThrow(/'photos' holds 'tree.jpg'.*nothing was/);
  expect((await s3.send(new ListObjectsV2Command({ Bucket: "photos" }))).KeyCount).toBe(2);
});

const dynamoError = (name: string, message: string) => JSON.stringify({ __type: `com.amazon#${name}`, message });
const s3Error = (code: string) => `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`;
const answering = (status: number, body: string) =>
  listening(createServer((_incoming, outgoing) => void outgoing.writeHead(status).end(body)));

test.each([
  ["ExpiredTokenException", "The security token included in the request is expired", /have expired: get new ones/],
  ["UnrecognizedClientException", "The security token is invalid", /refused the credentials/],
  ["InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than", /clock/],
])("setup: DynamoDB's %s is said with what to do", async (name, message, line) => {
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = await answering(400, dynamoError(name, message));
  await expect(told("cloud", "setup")).rejects.toThrow(line);
});

test.each([
  [301, "PermanentRedirect", /another region: set AWS_REGION/],
  [400, "AuthorizationHeaderMalformed", /another region: set AWS_REGION/],
  [403, "AccessDenied", /belongs to another account/],
  [400, "ExpiredToken", /have expired: get new ones/],
])("setup: S3's %i %s is said with what to do", async (status, code, line) => {
  process.env["AWS_ENDPOINT_URL_S3"] = await answering(status, s3Error(code));
  await expect(told("cloud", "setup")).rejects.toThrow(line);
});
