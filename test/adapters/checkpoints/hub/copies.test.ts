/** @file The hub's cache where symbolic links are not allowed: a snapshot has whole copies of its blobs, or nothing. */
import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { copyFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openRepositoryCache } from "../../../../adapters/checkpoints/hub/cache.ts";

vi.mock("node:fs/promises", async (original) => {
  const actual = await original<typeof import("node:fs/promises")>();
  const symlink = () => Promise.reject(Object.assign(new Error("not permitted"), { code: "EPERM" }));
  return { ...actual, symlink, copyFile: vi.fn(actual.copyFile) };
});

/** A cache with one blob, in which links are not allowed. */
function openCache() {
  const home = mkdtempSync(join(tmpdir(), "mgrpo-hub-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const cache = openRepositoryCache(home, "owner/tiny");
  const blobs = dirname(cache.blob("hash"));
  mkdirSync(blobs, { recursive: true });
  writeFileSync(cache.blob("hash"), "all of the weights");
  return { cache, blobs, link: () => cache.link("commit", "model.safetensors", "hash") };
}

test("an interrupted copy never reaches the snapshot: the next one starts over", async () => {
  const { cache, blobs, link } = openCache();
  vi.mocked(copyFile).mockImplementationOnce(async (_blob, path) => {
    await writeFile(path, "all of");
    throw new Error("killed");
  });
  const copy = join(cache.snapshot("commit"), "model.safetensors");
  await expect(link()).rejects.toThrow("killed");
  expect(existsSync(copy)).toBe(false);
  await link();
  expect(readFileSync(copy, "utf8")).toBe("all of the weights");
  expect(readdirSync(blobs)).toEqual(["hash"]);
});

test("before a copy, partial copies older than a day are removed; newer ones and partial downloads stay", async () => {
  const { blobs, link } = openCache();
  const [abandoned, recent] = [`hash.${randomUUID()}.incomplete`, `hash.${randomUUID()}.incomplete`];
  const download = "other.incomplete";
  for (const name of [abandoned, recent, download]) writeFileSync(join(blobs, name), "all of");
  for (const name of [abandoned, download]) utimesSync(join(blobs, name), 0, 0);
  await link();
  expect(readdirSync(blobs).sort()).toEqual(["hash", recent, download].sort());
});
