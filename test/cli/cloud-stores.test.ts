/** @file One process uses the stores of several training runs, and leaves its own environment as it is. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { openCloudStore } from "../../cli/local/embedded-cloud.ts";

const here = mkdtempSync(join(tmpdir(), "mgrpo-cloud-stores-"));
afterAll(() => rmSync(here, { recursive: true, force: true }));

test("two stores are open at the same time, each with its own endpoints and keys, and the environment does not change", async () => {
  const idle = async () => {};
  const handlers = { objectCreated: idle, tick: idle };
  const before = { ...process.env };
  const clouds = await Promise.all(
    ["a", "b"].map((name) => startLocalCloud({ directory: join(here, name), handlers, tickSeconds: 0 })),
  );
  const stores = clouds.map(({ environment }) => openCloudStore(environment));
  for (const [i, { table, objects }] of stores.entries()) {
    await table.insert({ pk: "WHO", sk: "WHO" }, { who: i });
    await objects.commit("who", new Uint8Array([i]));
  }
  for (const [i, { table, objects }] of stores.entries()) {
    expect(await table.get({ pk: "WHO", sk: "WHO" })).toMatchObject({ who: i });
    expect(await objects.get("who")).toEqual(new Uint8Array([i]));
  }
  for (const store of stores) store.close();
  for (const cloud of clouds) await cloud.close();
  // The AWS clients set this variable, which turns off a warning of the SDK.
  const own = ({ AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: _, ...rest }: NodeJS.ProcessEnv) => rest;
  expect(own(process.env)).toEqual(own(before));
});
