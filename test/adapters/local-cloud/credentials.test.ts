/** @file The keys of a local cloud: created once, and never half written. */
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openCredentials } from "../../../adapters/local-cloud/credentials.ts";

vi.mock("node:fs/promises", async (original) => {
  const actual = await original<typeof import("node:fs/promises")>();
  return { ...actual, writeFile: vi.fn(actual.writeFile) };
});

async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-credentials-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("keys that could not be written leave nothing behind: the next start creates them", async () => {
  const folder = await freshFolder();
  const { writeFile: write } = await vi.importActual<typeof import("node:fs/promises")>("node:fs/promises");
  vi.mocked(writeFile).mockImplementationOnce(async (file, _content, options) => {
    await write(file, "", options);
    throw Object.assign(new Error("the disk is full"), { code: "ENOSPC" });
  });
  await expect(openCredentials(folder)).rejects.toMatchObject({ code: "ENOSPC" });
  expect(await readdir(folder)).toEqual([]);
  const created = await openCredentials(folder);
  expect(await openCredentials(folder)).toEqual(created);
  expect(await readdir(folder)).toEqual(["credentials.json"]);
});

test("concurrent starts get the same keys", async () => {
  const folder = await freshFolder();
  const [first, ...others] = await Promise.all(Array.from({ length: 8 }, () => openCredentials(folder)));
  for (const other of others) expect(other).toEqual(first);
});
