/** @file `mgrpo cloud check` reports what works on a store and what does not, and deletes its records or warns that they are left. */
import { DynamoDBClient, ScanCommand } from "@aws-sdk/client-dynamodb";
import { ListObjectsV2Command, S3Client } from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { openLocalStore } from "../fakes/local-store.ts";
import { closeProxies, startProxy } from "../fakes/proxies.ts";
import { printed, printedJson } from "./printed.ts";

/** Does not verify signatures, so that a test's proxy can change requests. */
const store = await openLocalStore({ verifySignatures: false });
const home = { ...store.cloud.environment };
const dynamo = new DynamoDBClient();
const s3 = new S3Client();
beforeAll(async () => {
  await store.table.insert({ pk: "KEPT", sk: "KEPT" }, { n: 1 });
  await store.objects.commit("runs/kept", new Uint8Array([1]));
});
afterAll(async () => {
  dynamo.destroy();
  s3.destroy();
  await store.close();
});
beforeEach(() => void Object.assign(process.env, home));
afterEach(() => {
  // A check that is stopped or finds a broken behavior sets it.
  process.exitCode = undefined;
  closeProxies();
});

async function keysOfItems() {
  const { Items } = await dynamo.send(new ScanCommand({ TableName: "mgrpo" }));
  return Items?.map(({ pk }) => pk?.S);
}

async function keysOfObjects() {
  const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket: "mgrpo" }));
  return Contents?.map(({ Key }) => Key);
}

const brokenBehaviors = (lines: Record<string, unknown>[]) =>
  lines.filter(({ works }) => works === false).map(({ name }) => String(name));

test("check: every behavior of the embedded cloud works, and none of the check's records is left", async () => {
  const lines = await printedJson("cloud", "check");
  expect(brokenBehaviors(lines)).toEqual([]);
  expect(lines.filter(({ kind }) => kind === "behavior").length).toBeGreaterThan(40);
  expect(lines.at(-1)).toMatchObject({ kind: "check", broken: 0 });
  expect(process.exitCode).toBeUndefined();
  expect(await keysOfItems()).toEqual(["KEPT"]);
  expect(await keysOfObjects()).toEqual(["runs/kept"]);
});

test.each(["SIGINT", "SIGTERM"] as const)("check: %s stops it, and none of its records is left", async (signal) => {
  let written = 0;
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = await startProxy(String(home["AWS_ENDPOINT_URL_DYNAMODB"]), {
    change({ headers, body }) {
      if (String(headers["x-amz-target"]).endsWith("PutItem") && ++written === 1) process.emit(signal);
      return body;
    },
  });
  const spy = vi.spyOn(console, "error").mockImplementation(() => {});
  const lines = await printedJson("cloud", "check");
  expect(spy.mock.calls).toEqual([["stopped: the check is incomplete"]]);
  spy.mockRestore();
  expect(lines.at(-1)).toMatchObject({ kind: "behavior", about: "table", works: true });
  expect(process.exitCode).toBe(130);
  expect(await keysOfItems()).toEqual(["KEPT"]);
  expect(await keysOfObjects()).toEqual(["runs/kept"]);
});

test("check: a store that overwrites objects and items is reported, with exit code 1", async () => {
  process.env["AWS_ENDPOINT_URL_S3"] = await startProxy(String(home["AWS_ENDPOINT_URL_S3"]), {
    change({ headers, body }) {
      delete headers["if-none-match"];
      return body;
    },
  });
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = await startProxy(String(home["AWS_ENDPOINT_URL_DYNAMODB"]), {
    change({ headers, body }) {
      if (!String(headers["x-amz-target"]).endsWith("PutItem")) return body;
      return Buffer.from(JSON.stringify({ ...JSON.parse(body.toString()), ConditionExpression: undefined }));
    },
  });
  const found = brokenBehaviors(await printedJson("cloud", "check"));
  expect(found.sort()).toEqual([
    "one of 20 concurrent commits wins",
    "one of 20 concurrent inserts wins",
    "one of 4 concurrent multipart uploads wins",
    "the first commit wins (If-None-Match: *): the same bytes again succeed, other bytes are refused",
    "the first insert wins and the second changes nothing",
  ]);
  expect(process.exitCode).toBe(1);
});

test("check: on a store that cannot delete objects, it still ends with its result, and no items are left", async () => {
  process.env["AWS_ENDPOINT_URL_S3"] = await startProxy(String(home["AWS_ENDPOINT_URL_S3"]), {
    change: ({ method, url, body }) =>
      method === "POST" && /[?&]delete/.test(url)
        ? { status: 403, body: "<Error><Code>AccessDenied</Code><Message>no</Message></Error>" }
        : body,
  });
  const warned: string[] = [];
  const spy = vi.spyOn(console, "error").mockImplementation((line) => void warned.push(String(line)));
  const lines = await printedJson("cloud", "check").finally(() => spy.mockRestore());
  expect(lines.at(-1)).toMatchObject({ kind: "check", broken: brokenBehaviors(lines).length });
  expect(brokenBehaviors(lines).length).toBeGreaterThan(0);
  expect(warned).toEqual([expect.stringMatching(/^warning: the check's records are left in the store: /)]);
  expect(await keysOfItems()).toEqual(["KEPT"]);
});

test("check: a store whose updates create items is reported, and none of these items is left", async () => {
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = await startProxy(String(home["AWS_ENDPOINT_URL_DYNAMODB"]), {
    change({ headers, body }) {
      if (!String(headers["x-amz-target"]).endsWith("UpdateItem")) return body;
      const { ConditionExpression: all, ...input } = JSON.parse(body.toString());
      const others = String(all).replace(/^attribute_exists\(pk\)( AND )?/, "");
      return Buffer.from(JSON.stringify({ ...input, ...(others !== "" && { ConditionExpression: others }) }));
    },
  });
  expect(brokenBehaviors(await printedJson("cloud", "check"))).toEqual(["an update never creates an item"]);
  expect(await keysOfItems()).toEqual(["KEPT"]);
});

test("check: the error for a missing table names the command that creates it", async () => {
  process.env["MGRPO_TABLE"] = "nowhere";
  await expect(printedJson("cloud", "check")).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringContaining("mgrpo cloud setup"),
  });
});

// The last test, because it leaves items in the table.
test("check: a store's message reaches a terminal without control characters", async () => {
  const body = JSON.stringify({ __type: "x#AccessDeniedException", message: "no\u001b[2J" });
  process.env["AWS_ENDPOINT_URL_DYNAMODB"] = await startProxy(String(home["AWS_ENDPOINT_URL_DYNAMODB"]), {
    change: (request) =>
      /\.(Update|Delete)Item$/.test(String(request.headers["x-amz-target"])) ? { status: 400, body } : request.body,
  });
  const warned: string[] = [];
  const spy = vi.spyOn(console, "error").mockImplementation((line) => void warned.push(String(line)));
  const { isTTY } = process.stdout;
  process.stdout.isTTY = true;
  const lines = await printed("cloud", "check").finally(() => {
    process.stdout.isTTY = isTTY;
    spy.mockRestore();
  });
  for (const text of [lines, warned.join()]) {
    expect(text).toContain("no [2J");
    expect(text).not.toContain("\u001b[2J");
  }
});
