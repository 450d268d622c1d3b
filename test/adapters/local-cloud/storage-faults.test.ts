/** @file Faults of the cloud's own files: each is reported in one line that names the path and the remedy. Only the owner can read the keys. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { cp, mkdir, readdir, readFile, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startLocalCloud } from "../../../adapters/local-cloud/cloud.ts";
import { storageFault } from "../../../adapters/local-cloud/storage-faults.ts";
import { freshDirectory, openLocalStore } from "../../fakes/local-store.ts";

const BODY = new Uint8Array(2000).fill(7);
const healthy = mkdtempSync(join(tmpdir(), "mgrpo-healthy-"));

beforeAll(async () => {
  const store = await openLocalStore({ directory: healthy });
  await store.objects.commit("object", BODY);
  const text = "x".repeat(2000);
  for (let i = 0; i < 100; i++) await store.table.insert({ pk: "P", sk: String(i) }, { i, text });
  await store.close();
  // LevelDB writes its tables when it is reopened.
  await (await openLocalStore({ directory: healthy })).close();
});
afterAll(() => rmSync(healthy, { recursive: true, force: true }));

async function copyOf(directory: string): Promise<string> {
  const copy = join(await freshDirectory(), "cloud");
  await cp(directory, copy, { recursive: true });
  return copy;
}

async function filesIn(directory: string, name: RegExp): Promise<string[]> {
  const names = await readdir(directory, { recursive: true });
  return names.filter((path) => name.test(path)).map((path) => join(directory, path));
}

/** One line that names the path, the fault and the remedy. */
const damaged = (path: string) => ({
  code: "record-damaged",
  retryable: false,
  message: expect.stringMatching(new RegExp(`^[^\n]*${path}[^\n]* is damaged \\([^\n]+\\): [^\n]+$`)),
});

describe("a damaged file is detected on startup", () => {
  test.each([
    ["table/CURRENT", "table", "garbage"],
    ["table/MANIFEST", "table", "garbage"],
    ["table/[0-9]+.ldb", "table", ""],
    ["lock/CURRENT", "lock", "garbage"],
    ["credentials.json", "credentials.json", '{"accessKeyId":'],
  ])("%s", async (name, path, content) => {
    const directory = await copyOf(healthy);
    const files = await filesIn(directory, new RegExp(`^${name}`));
    expect(files).not.toEqual([]);
    for (const file of files) await writeFile(file, content);
    await expect(openLocalStore({ directory })).rejects.toMatchObject(damaged(join(directory, path)));
  });
});

test("a damaged block of the table is reported, over HTTP and in this process, and the cloud keeps running", async () => {
  const directory = await copyOf(healthy);
  for (const file of await filesIn(directory, /^table\/.*\.ldb$/)) {
    const bytes = await readFile(file);
    // Items come first; the description of the table is in the second half.
    await writeFile(file, bytes.fill(7, 100, Math.floor(bytes.length / 2)));
  }
  const store = await openLocalStore({ directory });
  onTestFinished(() => store.close());
  for (const table of [store.table, store.cloud.direct.table]) {
    await expect(table.get({ pk: "P", sk: "2" })).rejects.toMatchObject(damaged(join(directory, "table")));
    await expect(table.query("P", "")).rejects.toMatchObject(damaged(join(directory, "table")));
  }
  expect(await store.objects.get("object")).toEqual(BODY);
});

test.each([
  ["empty", 0],
  ["cut off in its bytes", 1000],
  ["cut off in its metadata", 2050],
])("an object's file that is %s is reported as damaged", async (_what, length) => {
  const directory = await copyOf(healthy);
  const store = await openLocalStore({ directory });
  onTestFinished(() => store.close());
  const [file = ""] = await filesIn(join(directory, "buckets"), /[0-9a-f]{64}$/);
  await truncate(file, length);
  for (const objects of [store.objects, store.cloud.direct.objects]) {
    await expect(objects.get("object")).rejects.toMatchObject(damaged(file));
    await expect(objects.head("object")).rejects.toMatchObject(damaged(file));
  }
});

test("a damaged object with a pending event fails startup, which waits for no handler", async () => {
  const directory = await freshDirectory();
  const cloud = await startLocalCloud({ directory });
  for (const key of ["whole", "damaged"]) await cloud.direct.objects.commit(key, BODY);
  await cloud.close();
  const sha256 = createHash("sha256").update("damaged").digest("hex");
  const [file = ""] = await filesIn(join(directory, "buckets"), new RegExp(`${sha256}$`));
  await truncate(file, 1000);
  // Like the embedded cloud's handlers, which wait until the cloud has started.
  const forever = () => new Promise<never>(() => {});
  const starting = startLocalCloud({ directory, handlers: { objectCreated: forever, tick: forever } });
  await expect(starting).rejects.toMatchObject(damaged(file));
}, 20_000);

test("an object whose bytes and metadata disagree is reported as damaged", async () => {
  const directory = await copyOf(healthy);
  const store = await openLocalStore({ directory });
  onTestFinished(() => store.close());
  const [file = ""] = await filesIn(join(directory, "buckets"), /[0-9a-f]{64}$/);
  await writeFile(file, (await readFile(file)).subarray(1));
  await expect(store.objects.get("object")).rejects.toMatchObject(damaged(file));
  await expect(store.cloud.direct.objects.get("object")).rejects.toMatchObject(damaged(file));
});

const unwritable = (path: string) => ({
  code: "storage-unwritable",
  retryable: false,
  message: expect.stringMatching(new RegExp(`^${path}[^\n]*: [^\n]*choose another folder$`)),
});

test("a folder without write access is refused", async () => {
  const parent = await freshDirectory();
  await mkdir(join(parent, "read-only"), { mode: 0o555 });
  // Root can write anywhere.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65534);
  onTestFinished(() => {
    if (isRoot) process.seteuid?.(0);
  });
  const directory = join(parent, isRoot ? "cloud" : "read-only/cloud");
  await expect(openLocalStore({ directory })).rejects.toMatchObject(unwritable(parent));
});

test("a file where the folder should be is refused", async () => {
  const file = join(await freshDirectory(), "file");
  await writeFile(file, "");
  await expect(openLocalStore({ directory: file })).rejects.toMatchObject(unwritable(file));
  await expect(openLocalStore({ directory: join(file, "cloud") })).rejects.toMatchObject(unwritable(file));
  await expect(openLocalStore({ directory: join(file, "cloud") })).rejects.toThrow(
    "a file is where a folder should be",
  );
});

test.each([
  ["EACCES", "permission denied", "storage-unwritable"],
  ["EROFS", "read-only file system", "storage-unwritable"],
  ["ENOENT", "ENOENT: no such file or directory, mkdir '/cloud/lock'", "storage-unwritable"],
  ["ENOSPC", "no space left on device", "disk-full"],
  ["LEVEL_IO_ERROR", "IO error: /cloud/table/1.log: No space left on device", "disk-full"],
  ["LEVEL_IO_ERROR", "IO error: /cloud/table/1.log: Read-only file system", "storage-unwritable"],
  ["LEVEL_IO_ERROR", "IO error: 1.logAppend: cannot write: There is not enough space on the disk.\r\n", "disk-full"],
  ["LEVEL_IO_ERROR", "IO error: CURRENT: Access is denied.\r\n", "storage-unwritable"],
  ["LEVEL_IO_ERROR", "IO error: /cloud/table/1.log: File too large", "storage-unwritable"],
  ["EFBIG", "EFBIG: file too large, write", "storage-unwritable"],
])("%s (%s) is reported in one line as %s", (code, message, expected) => {
  const fault = storageFault("/cloud", Object.assign(new Error(message), { code }));
  expect(fault).toMatchObject({ code: expected, message: expect.stringMatching(/^\/cloud[^\n]*$/) });
});

test.each([
  ["that is not about storage", "", "not a fault of files"],
  ["of a process with too many open files", "LEVEL_IO_ERROR", "IO error: /cloud/table/1.ldb: Too many open files"],
  ["of a process that gets no memory", "LEVEL_IO_ERROR", "IO error: /cloud/table/1.ldb: Cannot allocate memory"],
  ["of a database that another process has locked", "LEVEL_LOCKED", "IO error: lock /cloud/table/LOCK: Resource busy"],
])("an error %s is returned unchanged", (_, code, message) => {
  const error = Object.assign(new Error(message), { code });
  expect(storageFault("/cloud", error)).toBe(error);
});

test("the secret key is in one file only, which only its owner can read, in a folder that only its owner can enter", async () => {
  const directory = join(await freshDirectory(), "cloud");
  await mkdir(directory, { mode: 0o755 });
  await (await openLocalStore({ directory })).close();
  const mode = async (path: string) => (await stat(path)).mode & 0o777;
  expect(await mode(directory)).toBe(0o700);
  expect(await mode(join(directory, "credentials.json"))).toBe(0o600);
  const secret = JSON.parse(await readFile(join(directory, "credentials.json"), "utf8")).secretAccessKey;
  for (const path of await filesIn(directory, /./)) {
    if (!(await stat(path)).isFile() || path.endsWith("credentials.json")) continue;
    expect(await readFile(path, "latin1")).not.toContain(secret);
  }
});
