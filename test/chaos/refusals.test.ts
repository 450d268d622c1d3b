/** @file On a full disk, the proxy refuses a write as the embedded cloud does, and neither the SDK nor a worker repeats it. */
import { expect, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { retryingStore } from "../../gpu-workers/retrying-store.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import type { Entry } from "./history.ts";
import { openProxy } from "./proxy.ts";
import { refusal } from "./refusals.ts";
import type { Channel } from "./schedule.ts";
import { endpointsOf } from "./stores.ts";

const TOO_MUCH = "x".repeat(400_000);

test("the embedded cloud refuses a write to a full disk with the status, content type and error code of `refusal`", async () => {
  const store = await openLocalStore({ maxBytes: 300_000, verifySignatures: false });
  const { AWS_ENDPOINT_URL_DYNAMODB: dynamo, AWS_ENDPOINT_URL_S3: s3, AWS_ACCESS_KEY_ID: id } = store.cloud.environment;
  const authorization = `AWS4-HMAC-SHA256 Credential=${id}/x, SignedHeaders=, Signature=`;
  const put = await fetch(`${dynamo}`, {
    method: "POST",
    headers: { authorization, "x-amz-target": "DynamoDB_20120810.PutItem" },
    body: JSON.stringify({ TableName: "mgrpo", Item: { pk: { S: "P" }, sk: { S: "S" }, text: { S: TOO_MUCH } } }),
  });
  const ofTable = refusal("dynamo", "full");
  expect([put.status, put.headers.get("content-type")]).toEqual([ofTable?.status, ofTable?.headers["content-type"]]);
  expect(await put.json()).toMatchObject({ __type: JSON.parse(ofTable?.body ?? "{}").__type });
  const upload = await fetch(`${s3}/mgrpo/key`, { method: "PUT", headers: { authorization }, body: TOO_MUCH });
  const ofObjects = refusal("s3", "full");
  const codeOf = (xml = "") => /<Code>(.*)<\/Code>/.exec(xml)?.[1];
  expect([upload.status, codeOf(await upload.text())]).toEqual([ofObjects?.status, codeOf(ofObjects?.body)]);
  expect(upload.headers.get("content-type")).toBe(ofObjects?.headers["content-type"]);
  await store.close();
});

test("a worker that meets a full disk gets disk-full at once, from the table and from the objects", async () => {
  const store = await openLocalStore();
  const { environment } = store.cloud;
  const history: Entry[] = [];
  const proxyOf = (channel: Channel, endpoint = "") =>
    openProxy({
      ...{ process: "main-a", channel, target: () => Number(new URL(endpoint).port) },
      faults: new Map([[0, { process: "main-a", channel, request: 0, kind: "full", seconds: 0 }]]),
      ...{ now: () => 7, record: (entry) => history.push(entry), onRequest: () => () => {} },
    });
  const dynamo = await proxyOf("dynamo", environment["AWS_ENDPOINT_URL_DYNAMODB"]);
  const s3 = await proxyOf("s3", environment["AWS_ENDPOINT_URL_S3"]);
  const endpoints = endpointsOf({ dynamo: dynamo.port, s3: s3.port });
  const behind = openAwsStore({ table: "mgrpo", bucket: "mgrpo" }, { ...environment, ...endpoints });
  const worker = retryingStore(
    behind,
    30,
    createLog(() => {}),
  );
  const full = { code: "disk-full", retryable: false, message: expect.stringContaining("free some space") };
  const key = { pk: "P", sk: "S" };
  await expect(worker.table.insert(key, { n: 1 })).rejects.toMatchObject(full);
  await expect(worker.objects.commit("key", new Uint8Array(3))).rejects.toMatchObject(full);
  expect(history.map(({ channel, fault, status }) => [channel, fault, status])).toEqual([
    ["dynamo", "full", 507],
    ["s3", "full", 507],
  ]);
  expect(await store.table.get(key)).toBeUndefined();
  expect(await worker.table.insert(key, { n: 1 })).toBe(true);
  behind.close();
  await Promise.all([dynamo.close(), s3.close()]);
  await store.close();
});
