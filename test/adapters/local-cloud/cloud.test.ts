/** @file The local cloud as a whole: events and injected faults, crashes, abandoned uploads, the lock, ports, quotas, access keys, counts of writes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, readdir, rmdir, utimes } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DynamoDBClient, PutItemCommand, type ReturnConsumedCapacity } from "@aws-sdk/client-dynamodb";
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { expect, test } from "vitest";
import { openAwsStore } from "../../../adapters/aws/store.ts";
import { type LocalCloudOptions, startLocalCloud } from "../../../adapters/local-cloud/cloud.ts";
import { freshDirectory, openLocalStore } from "../../fakes/local-store.ts";

const WRITER = join(import.meta.dirname, "../../fixtures/cloud-writer.mjs");
const bytes = (text: string) => new TextEncoder().encode(text);

/** A cloud whose handlers record the keys of its events, and each tick. `failures`: how many of the first deliveries fail. */
async function listening(options: Partial<LocalCloudOptions> & { failures?: number } = {}) {
  const keys: string[] = [];
  let failures = options.failures ?? 0;
  const store = await openLocalStore({
    ...options,
    handlers: {
      async objectCreated(event) {
        keys.push(event.detail.object.key);
        if (failures-- > 0) throw new Error("not now");
      },
      async tick() {
        keys.push("tick");
      },
    },
  });
  return { ...store, keys };
}

test("creating an object sends an event, but a refused commit does not; a failing handler is called again", async () => {
  const store = await listening({ failures: 2 });
  await store.objects.commit("a", bytes("1"));
  await expect.poll(() => store.keys).toEqual(["a", "a", "a"]);
  await store.objects.commit("a", bytes("2"));
  await store.objects.commit("b", bytes("1"));
  await expect.poll(() => store.keys).toEqual(["a", "a", "a", "b"]);
  await store.close();
});

test("an event whose handler never succeeds is delivered again after a restart, but a handled one is not", async () => {
  const directory = await freshDirectory();
  const store = await listening({ directory });
  await store.objects.commit("done", bytes("1"));
  await expect.poll(() => store.keys).toEqual(["done"]);
  await store.close();
  const failing = await listening({ directory, failures: 1000 });
  await failing.objects.commit("again", bytes("1"));
  await expect.poll(() => failing.keys).toContain("again");
  await failing.close();
  // A journal line that a full disk cut off, joined with the next line.
  await appendFile(join(directory, "events"), '+ 99 {"bucket":"mg- 98\n');
  const after = await listening({ directory });
  await expect.poll(() => after.keys).toEqual(["again"]);
  await after.close();
});

test("a cloud without handlers leaves unhandled events to the next one", async () => {
  const directory = await freshDirectory();
  const failing = await listening({ directory, failures: 1000 });
  await failing.objects.commit("left", bytes("1"));
  await expect.poll(() => failing.keys).toContain("left");
  await failing.close();
  const reading = await startLocalCloud({ directory });
  expect(await reading.direct.objects.get("left")).toEqual(bytes("1"));
  await reading.close();
  const after = await listening({ directory });
  await expect.poll(() => after.keys).toEqual(["left"]);
  await after.close();
});

test("injected faults drop, duplicate and delay events; ticks still come", async () => {
  const deliveries: Record<string, readonly number[]> = { drop: [], double: [0, 0], delay: [1] };
  const store = await listening({ deliveries: (key) => deliveries[key] ?? [0], tickSeconds: 0.3 });
  const started = performance.now();
  for (const key of ["drop", "double", "delay", "plain"]) await store.objects.commit(key, bytes("1"));
  await expect.poll(() => store.keys).toEqual(expect.arrayContaining(["double", "plain", "delay"]));
  // A timer may fire slightly early, and arbitrarily late.
  expect(performance.now() - started).toBeGreaterThan(900);
  await expect.poll(() => store.keys).toContain("tick");
  await store.close();
  expect(store.keys.filter((key) => key !== "tick").sort()).toEqual(["delay", "double", "double", "plain"]);
});

test("acknowledged writes survive kill -9, and their events are delivered again", async () => {
  const directory = await freshDirectory();
  const child = spawn(process.execPath, [WRITER, directory], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const acknowledged: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    acknowledged.push(line);
    if (acknowledged.length === 60) child.kill("SIGKILL");
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  expect(child.signalCode).toBe("SIGKILL");

  const store = await listening({ directory });
  for (const name of acknowledged) {
    expect(await store.objects.get(`o/${name}`)).toEqual(bytes(`body ${name}`));
    expect(await store.table.get({ pk: "P", sk: name })).toEqual({ name, n: 1 });
  }
  await expect.poll(() => store.keys).toEqual(expect.arrayContaining(acknowledged.map((name) => `o/${name}`)));
  await store.close();
});

test("an abandoned upload is removed at the first start after two days; a younger one stays", async () => {
  const directory = await freshDirectory();
  const store = await openLocalStore({ directory });
  const s3 = new S3Client();
  const begin = async (Key: string) => {
    const { UploadId = "" } = await s3.send(new CreateMultipartUploadCommand({ Bucket: "mgrpo", Key }));
    const address = { Bucket: "mgrpo", Key, UploadId };
    await s3.send(new UploadPartCommand({ ...address, PartNumber: 1, Body: "part" }));
    return address;
  };
  const [old, young] = [await begin("old"), await begin("young")];
  s3.destroy();
  await store.close();
  const names = await readdir(directory, { recursive: true });
  const folder = names.find((name) => name.endsWith(old.UploadId)) ?? "";
  await utimes(join(directory, folder), new Date(), new Date(Date.now() - 3 * 86_400_000));
  const again = await openLocalStore({ directory });
  const client = new S3Client();
  await expect(client.send(new ListPartsCommand(old))).rejects.toMatchObject({ name: "NoSuchUpload" });
  expect((await client.send(new ListPartsCommand(young))).Parts).toHaveLength(1);
  client.destroy();
  await again.close();
});

test("a second cloud on the same directory, in this process or another, is refused in one clear line", async () => {
  const store = await openLocalStore();
  await expect(openLocalStore({ directory: store.directory })).rejects.toMatchObject({
    code: "store-unreachable",
    message: expect.stringMatching(new RegExp(`^.* is in use by a process \\(pid ${process.pid}\\): .+$`)),
  });
  const child = spawn(process.execPath, [WRITER, store.directory]);
  let errors = "";
  child.stderr.on("data", (piece) => {
    errors += piece;
  });
  const [code] = await once(child, "close");
  expect(code).not.toBe(0);
  expect(errors).toMatch(/is in use by a process \(pid/);
  await store.close();
});

test("a port in use is refused in one clear line", async () => {
  const store = await openLocalStore();
  const taken = Number(new URL(process.env["AWS_ENDPOINT_URL_S3"] ?? "").port);
  await expect(openLocalStore({ ports: { dynamo: 0, s3: taken } })).rejects.toMatchObject({
    code: "cannot-listen",
    message: expect.stringMatching(new RegExp(`^.*: port ${taken} of .+$`)),
  });
  await store.close();
});

test("writes beyond the quota are refused as disk-full until an object is deleted; existing objects stay", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  expect(await store.objects.commit("fits", new Uint8Array(200_000))).toBe(true);
  const full = { code: "disk-full", retryable: false };
  await expect(store.objects.commit("too much", new Uint8Array(200_000))).rejects.toMatchObject(full);
  expect(await store.objects.head("too much")).toBeUndefined();
  const text = "x".repeat(150_000);
  await expect(store.table.insert({ pk: "P", sk: "big" }, { text })).rejects.toMatchObject(full);
  expect(await store.objects.head("fits")).toBe(200_000);
  await store.objects.delete(["fits"]);
  expect(await store.objects.commit("too much", new Uint8Array(200_000))).toBe(true);
  await store.close();
});

test("an object that is replaced does not count toward the quota", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  const s3 = new S3Client({ maxAttempts: 1 });
  for (let byte = 0; byte < 6; byte++)
    await s3.send(new PutObjectCommand({ Bucket: "mgrpo", Key: "replaced", Body: Buffer.alloc(100_000, byte) }));
  expect(await store.objects.head("replaced")).toBe(100_000);
  s3.destroy();
  await store.close();
});

test("a part that is replaced, and one that is refused, do not count toward the quota", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  const s3 = new S3Client({ maxAttempts: 1 });
  const address = { Bucket: "mgrpo", Key: "parts" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(address));
  const put = (PartNumber: number, byte: number, upload = UploadId) =>
    s3.send(new UploadPartCommand({ ...address, UploadId: upload, PartNumber, Body: Buffer.alloc(100_000, byte) }));
  const first = await put(1, 1);
  for (let retry = 0; retry < 4; retry++) expect((await put(1, 1)).ETag).toBe(first.ETag);
  for (let byte = 2; byte < 6; byte++) expect((await put(1, byte)).ETag).not.toBe(first.ETag);
  for (let refused = 0; refused < 4; refused++) {
    await expect(put(1, 1, "none")).rejects.toMatchObject({ name: "NoSuchUpload" });
    await expect(put(1.5, 1)).rejects.toMatchObject({ name: "InvalidArgument" });
  }
  expect(await store.objects.commit("fits", new Uint8Array(150_000))).toBe(true);
  s3.destroy();
  await store.close();
});

test("a body whose declared length is not a number is refused, and the quota still holds", async () => {
  const store = await openLocalStore({ maxBytes: 300_000, verifySignatures: false });
  const { AWS_ENDPOINT_URL_S3: endpoint, AWS_ACCESS_KEY_ID: id } = process.env;
  const headers = {
    authorization: `AWS4-HMAC-SHA256 Credential=${id}/x, SignedHeaders=, Signature=`,
    "content-encoding": "aws-chunked",
    "x-amz-decoded-content-length": "many",
  };
  const response = await fetch(`${endpoint}/mgrpo/key`, { method: "PUT", headers, body: "0\r\n\r\n" });
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("InvalidArgument")]);
  const tooMuch = store.objects.commit("too much", new Uint8Array(400_000));
  await expect(tooMuch).rejects.toMatchObject({ code: "disk-full" });
  await store.close();
});

test("parts that cannot be joined do not count toward the quota a second time", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  const s3 = new S3Client({ maxAttempts: 1 });
  const address = { Bucket: "mgrpo", Key: "joined" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(address));
  const part = { ...address, UploadId, PartNumber: 1 };
  const { ETag } = await s3.send(new UploadPartCommand({ ...part, Body: Buffer.alloc(100_000) }));
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
  const complete = () => s3.send(new CompleteMultipartUploadCommand({ ...address, UploadId, MultipartUpload }));
  const temporary = join(store.directory, "temporary");
  await rmdir(temporary);
  for (let attempt = 0; attempt < 3; attempt++)
    await expect(complete()).rejects.toMatchObject({ name: "InternalError" });
  await mkdir(temporary);
  await complete();
  expect(await store.objects.head("joined")).toBe(100_000);
  s3.destroy();
  await store.close();
});

test("an unknown access key is refused; a missing server is an outage that names the endpoint", async () => {
  const store = await openLocalStore();
  process.env["AWS_ACCESS_KEY_ID"] = "SOMEBODYELSE";
  const other = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  const refused = { code: "store-unreachable", retryable: false, message: expect.stringContaining("credentials") };
  await expect(other.table.get({ pk: "a", sk: "b" })).rejects.toMatchObject(refused);
  await expect(other.objects.get("a")).rejects.toMatchObject(refused);
  other.close();
  const { environment } = store.cloud;
  await store.close();
  const disconnected = openAwsStore({ table: "mgrpo", bucket: "mgrpo" }, environment);
  const outage = { code: "store-unreachable", retryable: true };
  const outageAt = (endpoint: string) => ({
    ...outage,
    message: expect.stringContaining(environment[endpoint] ?? "none"),
  });
  await expect(disconnected.objects.get("a")).rejects.toMatchObject(outageAt("AWS_ENDPOINT_URL_S3"));
  await expect(disconnected.table.get({ pk: "a", sk: "b" })).rejects.toMatchObject(
    outageAt("AWS_ENDPOINT_URL_DYNAMODB"),
  );
  await expect(disconnected.clock.storeTime()).rejects.toMatchObject(outage);
  disconnected.close();
});

test("a client that dies in the middle of a DynamoDB request does not harm the cloud; writes are counted", async () => {
  const store = await openLocalStore();
  const { connect } = await import("node:net");
  const socket = connect(Number(new URL(process.env["AWS_ENDPOINT_URL_DYNAMODB"] ?? "").port), "127.0.0.1");
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{", () => socket.destroy());
  await once(socket, "close");
  await store.table.insert({ pk: "a", sk: "b" }, { text: "x".repeat(1500) });
  await store.table.update({ key: { pk: "a", sk: "b" }, set: [[["n"], 1]], when: [] });
  await store.table.get({ pk: "a", sk: "b" });
  expect(store.cloud.writes()).toMatchObject({ requests: 2, units: 4 });
  await store.close();
});

test("a write returns the consumed capacity at the level of detail that its client asks for", async () => {
  const store = await openLocalStore();
  const dynamo = new DynamoDBClient();
  const Item = { pk: { S: "a" }, sk: { S: "b" } };
  const capacity = async (detail: ReturnConsumedCapacity) =>
    (await dynamo.send(new PutItemCommand({ TableName: "mgrpo", Item, ReturnConsumedCapacity: detail })))
      .ConsumedCapacity;
  expect(await capacity("NONE")).toBeUndefined();
  expect(await capacity("TOTAL")).toEqual({ TableName: "mgrpo", CapacityUnits: 1 });
  expect(await capacity("INDEXES")).toMatchObject({ CapacityUnits: 1, Table: { CapacityUnits: 1 } });
  expect(store.cloud.writes()).toMatchObject({ requests: 3, units: 3 });
  dynamo.destroy();
  await store.close();
});
