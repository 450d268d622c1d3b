/** @file The SDK store, through the local cloud over HTTP, keeps the contracts; so does the cloud as its own process sees it. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { ClientRequest } from "node:http";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { clockContract } from "./clock.ts";
import { objectStoreContract } from "./object-store.ts";
import { tableContract } from "./table.ts";

const store = await openLocalStore();
afterAll(() => store.close());

describe("objects on S3", () => objectStoreContract(() => store.objects));
describe("table on DynamoDB", () => tableContract(() => store.table));
const { direct } = store.cloud;
describe("objects of the own process", () => objectStoreContract(() => direct.objects));
describe("table of the own process", () => tableContract(() => direct.table));
describe("clock of the own process", () => clockContract(() => direct.clock));
describe("clock of the store", () => clockContract(() => store.clock));

test("what a run says is tagged, so that a bucket can forget it; nothing else is", async () => {
  const tags = new Map<string, unknown>();
  const hear = (message: unknown) => {
    const { request } = message as { request: ClientRequest };
    if (request.method === "PUT")
      tags.set(request.path.replace(/^\/mgrpo\/|\?.*$/g, ""), request.getHeader("x-amz-tagging"));
  };
  subscribe("http.client.request.start", hear);
  onTestFinished(() => void unsubscribe("http.client.request.start", hear));
  const address = { run: "tagged", phase: "train", step: 0, group: 0, rollout: 0 };
  const outcome = objectKeys.outcome(address);
  const manifest = objectKeys.manifest("tagged", "main", 0);
  for (const key of [outcome, manifest]) await store.objects.commit(key, new Uint8Array([1]));
  expect(tags).toEqual(
    new Map([
      [outcome, "mgrpo=conversation"],
      [manifest, undefined],
    ]),
  );
});
