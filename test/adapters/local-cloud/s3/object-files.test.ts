/** @file Objects as files: concurrent deletions, a bucket deleted too early, and foreign files in their folders. */
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDiskSpace } from "../../../../adapters/local-cloud/disk-space.ts";
import { openJournal } from "../../../../adapters/local-cloud/journal.ts";
import { openObjectFiles } from "../../../../adapters/local-cloud/s3/object-files.ts";
import { receiveBytes } from "../../../../adapters/local-cloud/s3/receive.ts";
import { freshDirectory, openLocalStore } from "../../../fakes/local-store.ts";

test("two concurrent deletions of an object do not return its bytes to the quota twice", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  const { objects } = store.cloud.direct;
  expect(await objects.commit("deleted twice", new Uint8Array(200_000))).toBe(true);
  await Promise.all([objects.delete(["deleted twice"]), objects.delete(["deleted twice"])]);
  expect(await objects.head("deleted twice")).toBeUndefined();
  const tooMuch = store.objects.commit("too much", new Uint8Array(400_000));
  await expect(tooMuch).rejects.toMatchObject({ code: "disk-full" });
  await store.close();
});

async function openFiles() {
  const directory = await freshDirectory();
  const space = await openDiskSpace(directory);
  const journal = await openJournal(join(directory, "events"), () => {});
  onTestFinished(() => {
    journal.close();
    rmSync(directory, { recursive: true });
  });
  const objects = await openObjectFiles({ directory, space, journal });
  await objects.createBucket("mgrpo");
  return { objects, received: await receiveBytes(new TextEncoder().encode("one"), objects.temporary, space) };
}

test("an object whose bucket is deleted while it is received does not make the bucket again", async () => {
  const { objects, received } = await openFiles();
  await objects.deleteBucket("mgrpo");
  const late = objects.commit("mgrpo", { key: "weights", received, headers: {}, onlyIfAbsent: true });
  await expect(late).rejects.toMatchObject({ code: "NoSuchBucket", message: "there is no bucket mgrpo" });
  expect(await objects.buckets()).toEqual([]);
  expect(readdirSync(objects.temporary)).toEqual([]);
});

test("a file that a file browser left is neither a bucket nor an object, and its bucket can be deleted", async () => {
  const { objects, received } = await openFiles();
  await objects.commit("mgrpo", { key: "weights", received, headers: {}, onlyIfAbsent: true });
  const bucket = join(objects.root, "mgrpo");
  const [shard = expect.fail()] = readdirSync(bucket);
  for (const folder of [objects.root, bucket, join(bucket, shard)]) writeFileSync(join(folder, ".DS_Store"), "");
  expect(await objects.buckets()).toEqual(["mgrpo"]);
  expect((await objects.listObjects("mgrpo")).map(({ key }) => key)).toEqual(["weights"]);
  await objects.delete("mgrpo", "weights");
  await objects.deleteBucket("mgrpo");
  expect(await objects.buckets()).toEqual([]);
});
