/** @file The tag that a conversation gets in S3, and a commit that meets another write in flight. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { ClientRequest } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { openClients } from "../../../adapters/aws/clients.ts";
import { openObjectStore } from "../../../adapters/aws/object-store.ts";
import { objectKeys } from "../../../core/contracts/keys.ts";
import { serveHttp } from "../../fakes/http-server.ts";
import { openLocalStore } from "../../fakes/local-store.ts";

test("a conversation is tagged, so that a bucket can expire it; a manifest is not", async () => {
  const store = await openLocalStore();
  const tags = new Map<string, unknown>();
  const recordTag = (message: unknown) => {
    const { request } = message as { request: ClientRequest };
    const key = request.path.replace(/^\/mgrpo\/|\?.*$/g, "");
    if (request.method === "PUT") tags.set(key, request.getHeader("x-amz-tagging"));
  };
  subscribe("http.client.request.start", recordTag);
  onTestFinished(async () => {
    unsubscribe("http.client.request.start", recordTag);
    await store.close();
  });
  const outcome = objectKeys.outcome({ run: "tagged", phase: "train", step: 0, group: 0, rollout: 0 });
  const manifest = objectKeys.manifest("tagged", "main", 0);
  for (const key of [outcome, manifest]) await store.objects.commit(key, new Uint8Array([1]));
  expect([...tags]).toEqual([
    [outcome, "mgrpo=conversation"],
    [manifest, undefined],
  ]);
});

/** Objects in a bucket that answers the first `conflicts` writes as S3 does while another write of the key is in flight. */
async function contendedObjects(conflicts: number) {
  let writes = 0;
  const conflict = "<Error><Code>ConditionalRequestConflict</Code><Message>in flight</Message></Error>";
  const origin = await serveHttp((request, response) => {
    request.resume();
    writes += 1;
    const isRefused = writes <= conflicts;
    response.writeHead(isRefused ? 409 : 200, { "content-type": "application/xml" }).end(isRefused ? conflict : "");
  });
  const ignore = { sent() {}, answered() {} };
  const access = { AWS_ENDPOINT_URL: origin, AWS_ACCESS_KEY_ID: "k", AWS_SECRET_ACCESS_KEY: "s" };
  const clients = openClients({ dynamo: ignore, s3: ignore }, access);
  onTestFinished(() => clients.close());
  return { objects: openObjectStore({ s3: clients.s3, bucket: "b", endpoint: () => origin }), writes: () => writes };
}

test("a commit that meets another write in flight is sent again", async () => {
  const { objects, writes } = await contendedObjects(2);
  expect(await objects.commit("k", new Uint8Array([1]))).toBe(true);
  expect(writes()).toBe(3);
});

test("a commit that meets other writes in each of six attempts fails with a retryable error", async () => {
  const { objects, writes } = await contendedObjects(Number.POSITIVE_INFINITY);
  await expect(objects.commit("k", new Uint8Array([1]))).rejects.toMatchObject({
    code: "store-unreachable",
    retryable: true,
    message: "commit k: another write of this key was in flight in every attempt",
  });
  expect(writes()).toBe(6);
});
