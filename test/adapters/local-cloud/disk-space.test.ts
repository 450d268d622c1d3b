/** @file Reservations of disk space. */
import { statfs } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { openDiskSpace } from "../../../adapters/local-cloud/disk-space.ts";
import { freshDirectory } from "../../fakes/local-store.ts";

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

test("the refusal says how much of the disk stays free", async () => {
  const { space, bytes } = await openSpace();
  await expect(space.reserve(2 * bytes)).rejects.toThrow(/bytes do not fit on the disk, where 64 MiB stay free$/);
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

test("written bytes count as used space, and no longer as reserved", async () => {
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
