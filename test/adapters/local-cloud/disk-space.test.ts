/** @file Reservations of disk space. */
import { statfs } from "node:fs/promises";
import { expect, test } from "vitest";
import { openDiskSpace } from "../../../adapters/local-cloud/disk-space.ts";
import { freshDirectory } from "../../fakes/local-store.ts";

test("of two concurrent reservations that fit only separately, one is refused", async () => {
  const directory = await freshDirectory();
  const { bavail, bsize } = await statfs(directory);
  const space = await openDiskSpace(directory);
  // Two thirds of what is free, less the 64 MiB that always stay free.
  const bytes = Math.floor((2 / 3) * (bavail * bsize - 64 * 2 ** 20));
  const ends = await Promise.allSettled([space.reserve(bytes), space.reserve(bytes)]);
  expect(ends.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
});
