/** @file The tag that the object store sends to S3 with a conversation. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { rm } from "node:fs/promises";
import type { ClientRequest } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { objectKeys } from "../../../core/contracts/keys.ts";
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
    await rm(store.directory, { recursive: true });
  });
  const outcome = objectKeys.outcome({ run: "tagged", phase: "train", step: 0, group: 0, rollout: 0 });
  const manifest = objectKeys.manifest("tagged", "main", 0);
  for (const key of [outcome, manifest]) await store.objects.commit(key, new Uint8Array([1]));
  expect([...tags]).toEqual([
    [outcome, "mgrpo=conversation"],
    [manifest, undefined],
  ]);
});
