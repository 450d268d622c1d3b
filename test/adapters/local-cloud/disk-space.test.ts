/** @file Reservations of disk space, and quotas. */
import { rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { openDiskSpace } from "../../../adapters/local-cloud/disk-space.ts";
import { freshDirectory, openLocalStore } from "../../fakes/local-store.ts";

/** A disk, and two thirds of its free space beyond the 64 MiB that always stay free. */
async function openSpace() {
  const directory = await freshDirectory();
  const { bavail, bsize } = await statfs(directory);
  const bytes = Math.floor((2 / 3) * (bavail * bsize - 64 * 2 ** 20));
  return { space: await openDiskSpace(directory), bytes };
}

/** The measured free space is trusted for 250 ms. */
const untilMeasuredAgain = () => pause(300);

test("of two concurrent reservations that fit only separately, one is refused", async () => {
  const { space, bytes } = await openSpace();
  const ends = await Promise.allSettled([space.reserve(bytes), space.reserve(bytes)]);
  expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
});

test("the refusal says how much of the disk must stay free", async () => {
  const { space, bytes } = await openSpace();
  await expect(space.reserve(2 * bytes)).rejects.toThrow(/bytes do not fit on the disk, where 64 MiB must stay free$/);
});

test("space that is reserved and not yet written stays reserved for as long as the write takes", async () => {
  const { space, bytes } = await openSpace();
  const first = await space.reserve(bytes);
  await untilMeasuredAgain();
  await expect(space.reserve(bytes)).rejects.toMatchObject({ code: "InsufficientStorage" });
  first.end();
  await untilMeasuredAgain();
  await space.reserve(bytes);
});

test("a reservation is released only once, even if more was written than reserved", async () => {
  const { space, bytes } = await openSpace();
  const first = await space.reserve(bytes);
  // More than was reserved: the length of a body is only declared.
  first.wrote(bytes + 1);
  first.end();
  await untilMeasuredAgain();
  const second = await space.reserve(bytes);
  await untilMeasuredAgain();
  await expect(space.reserve(bytes)).rejects.toMatchObject({ code: "InsufficientStorage" });
  second.end();
});

test("a quota counts the files that are there, and what is being written", async () => {
  const directory = await freshDirectory();
  const space = await openDiskSpace(directory, 1000);
  for (let write = 0; write < 3; write++) {
    const { end } = await space.reserve(400);
    // From the second write on, this replaces the file, and its old bytes are not released.
    await writeFile(join(directory, "file"), Buffer.alloc(400));
    end();
  }
  const open = await space.reserve(600);
  await expect(space.reserve(1)).rejects.toMatchObject({ code: "InsufficientStorage" });
  open.end();
  await rm(join(directory, "file"));
  await space.reserve(1000);
});

test("overwritten items count toward the quota only until the database drops them, so an item may be rewritten without bound", async () => {
  const store = await openLocalStore({ maxBytes: 12_000_000 });
  const { table } = store.cloud.direct;
  const text = "x".repeat(300_000);
  const key = { pk: "P", sk: "big" };
  await table.insert(key, { text });
  for (let n = 0; n < 60; n++) await table.update({ key, set: [[["text"], text]], when: [] });
  await store.close();
}, 30_000);
