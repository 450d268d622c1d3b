/** @file Connections to a store that stalls or resets them, failures inside a response, and more requests than connections. */
import type { RequestListener, ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { GetObjectCommand } from "@aws-sdk/client-s3";
import { expect, onTestFinished, test } from "vitest";
import { type ConnectionLimits, openClients } from "../../../adapters/aws/clients.ts";
import { openObjectStore } from "../../../adapters/aws/object-store.ts";
import { openTable, sdkApi } from "../../../adapters/aws/table.ts";
import { serveHttp } from "../../fakes/http-server.ts";

/** A store on a server of its own. `sent`: the number of requests on the wire, retries included. */
async function openWith(limits: ConnectionLimits, answer: RequestListener) {
  const AWS_ENDPOINT_URL = await serveHttp(answer);
  let sent = 0;
  const observer = { sent: () => void sent++, answered() {} };
  const access = { AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID: "k", AWS_SECRET_ACCESS_KEY: "s" };
  const clients = openClients({ dynamo: observer, s3: observer }, access, limits);
  onTestFinished(() => clients.close());
  const endpoint = () => AWS_ENDPOINT_URL;
  return {
    table: openTable({ api: sdkApi(clients.dynamo), name: "t", endpoint }),
    objects: openObjectStore({ s3: clients.s3, bucket: "b", endpoint }),
    s3: clients.s3,
    sent: () => sent,
  };
}

test("a store that never answers is unreachable after four attempts", async () => {
  const { table, objects, sent } = await openWith({ connections: 2, idleSeconds: 0.05 }, () => {});
  const stalled = { code: "store-unreachable", retryable: true, message: expect.stringContaining("of inactivity") };
  await expect(table.get({ pk: "p", sk: "s" })).rejects.toMatchObject(stalled);
  await expect(objects.get("k")).rejects.toMatchObject(stalled);
  expect(sent()).toBe(8);
});

test("a store that resets every connection is unreachable after four attempts", async () => {
  const { objects, sent } = await openWith({ connections: 2, idleSeconds: 30 }, (request) => request.socket.destroy());
  await expect(objects.get("k")).rejects.toMatchObject({ code: "store-unreachable", retryable: true });
  expect(sent()).toBe(4);
});

test("a response that breaks off within the body of a 404 is not an answer: a retry can help", async () => {
  const { objects } = await openWith({ connections: 2, idleSeconds: 30 }, (_, response) => {
    response.writeHead(404, { "content-type": "application/xml", "content-length": 100 });
    response.write("<Error><Code>NoSu", () => response.socket?.destroy());
  });
  await expect(objects.get("k")).rejects.toMatchObject({ code: "store-unreachable", retryable: true });
});

test("an internal error on one key of a deletion is retryable", async () => {
  const failure = "<Error><Key>k</Key><Code>InternalError</Code><Message>Please try again.</Message></Error>";
  const { objects } = await openWith({ connections: 2, idleSeconds: 30 }, (request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "application/xml" }).end(`<DeleteResult>${failure}</DeleteResult>`);
  });
  const refused = { code: "store-unreachable", retryable: true, message: expect.stringContaining("k: Please") };
  await expect(objects.delete(["k"])).rejects.toMatchObject(refused);
});

test("an object whose download stalls is downloaded again", async () => {
  let requests = 0;
  const { objects } = await openWith({ connections: 2, idleSeconds: 2 }, (_, response) => {
    response.writeHead(200, { "content-length": 4 });
    if (requests++ === 0) response.write("ab");
    else response.end("abcd");
  });
  expect(Buffer.from((await objects.get("k")) ?? []).toString()).toBe("abcd");
  // Three or more if this process itself stalls for `idleSeconds`.
  expect(requests).toBeGreaterThan(1);
});

test("requests may wait for a free connection for longer than the connection timeout, and each is sent once", async () => {
  let requests = 0;
  const { table, sent } = await openWith({ connections: 1, idleSeconds: 30 }, async (request, response) => {
    request.resume();
    // The others wait for longer than the connection timeout, 3 seconds.
    if (requests++ === 0) await pause(4000);
    response.writeHead(200, { "content-type": "application/x-amz-json-1.0" }).end("{}");
  });
  const keys = Array.from({ length: 40 }, (_, i) => ({ pk: "p", sk: `${i}` }));
  await Promise.all(keys.map((key) => table.insert(key, {})));
  expect(sent()).toBe(40);
});

test("a download occupies its connection until its last byte, and the next request waits for it", async () => {
  const downloads: ServerResponse[] = [];
  const { objects, sent } = await openWith({ connections: 1, idleSeconds: 30 }, (_, response) => {
    response.writeHead(200, { "content-length": 4 });
    response.write("ab");
    downloads.push(response);
  });
  const both = Promise.all([objects.get("k"), objects.get("l")]);
  for (const [i, started] of [1, 2].entries()) {
    await expect.poll(() => downloads.length).toBe(started);
    await pause(100);
    expect(sent()).toBe(started);
    downloads[i]?.end("cd");
  }
  expect((await both).map((bytes) => Buffer.from(bytes ?? []).toString())).toEqual(["abcd", "abcd"]);
  expect(sent()).toBe(2);
});

test("a response body that nobody reads frees its connection once the connection closes", async () => {
  const paths = new Set<string | undefined>();
  const { s3 } = await openWith({ connections: 1, idleSeconds: 2 }, ({ url }, response) => {
    paths.add(url?.split("?")[0]);
    response.end("abcd");
  });
  for (const Key of ["k", "l"]) await s3.send(new GetObjectCommand({ Bucket: "b", Key }));
  expect([...paths]).toEqual(["/b/k", "/b/l"]);
});
