/** @file The contract of CheckpointSource, on a folder and on an S3 prefix of the local cloud; large files outside the store, and their cache. */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { type FileCache, openFileCache } from "../../adapters/checkpoints/cache.ts";
import { openExternalFiles } from "../../adapters/checkpoints/external-files.ts";
import { openFolderSource } from "../../adapters/checkpoints/folder.ts";
import { openS3Source, readS3Object } from "../../adapters/checkpoints/s3.ts";
import { type LocalCloud, startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import type { CheckpointSource } from "../../core/checkpoint-source.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { wholeFile } from "../../engine/checkpoint/files.ts";
import { sha256, sha256OfFile } from "../../engine/hash.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const FILES: Record<string, string> = {
  "step-1/config.json": "{}",
  "step-1/model.safetensors": "weights",
  "step-2/_SUCCESS": "",
  "step-2/shards/1.safetensors": "deeper",
  "loose.txt": "no checkpoint",
};
const directory = mkdtempSync(join(tmpdir(), "checkpoints-"));
let restoreEnvironment = () => {};
let cloud: LocalCloud;

beforeAll(async () => {
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(directory, "ours", path)), { recursive: true });
    writeFileSync(join(directory, "ours", path), text);
  }
  const idle = async () => {};
  const handlers = { objectCreated: idle, tick: idle };
  cloud = await startLocalCloud({ directory: join(directory, "cloud"), tickSeconds: 0, handlers });
  restoreEnvironment = setEnvironment(cloud.environment);
  const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  for (const [path, text] of Object.entries({ ...FILES, "../other/config.json": "not under the prefix" })) {
    await store.objects.commit(join("ours", path), new TextEncoder().encode(text));
  }
  store.close();
});

afterAll(async () => {
  await cloud.close();
  restoreEnvironment();
  rmSync(directory, { recursive: true, force: true });
});

/** Overwrites a file in the folder and in the bucket. */
async function overwrite(path: string, text: string) {
  writeFileSync(join(directory, "ours", path), text);
  const s3 = new S3Client({ forcePathStyle: true });
  await s3.send(new PutObjectCommand({ Bucket: "mgrpo", Key: `ours/${path}`, Body: text }));
  s3.destroy();
}

describe.each<[string, () => CheckpointSource]>([
  ["folder", () => openFolderSource(join(directory, "ours"))],
  ["S3 prefix", () => openS3Source("s3://mgrpo/ours")],
  ["S3 prefix with a trailing slash", () => openS3Source("s3://mgrpo/ours/")],
])("%s", (_name, open) => {
  test("the list has each folder's own files with their sizes, but no loose or nested files", async () => {
    const found = await open().list();
    const sizes = [...found].map(
      ([name, files]) => [name, Object.fromEntries([...files].map(([file, { bytes }]) => [file, bytes]))] as const,
    );
    expect(Object.fromEntries(sizes)).toEqual({
      "step-1": { "config.json": 2, "model.safetensors": 7 },
      "step-2": { _SUCCESS: 0 },
    });
  });

  test("a rewritten file is detected, even if its size is the same", async () => {
    const look = async () => (await open().list()).get("step-1")?.get("model.safetensors");
    const before = await look();
    await overwrite("step-1/model.safetensors", "WEIGHTS");
    expect((await look())?.bytes).toBe(before?.bytes);
    expect((await look())?.stamp).not.toBe(before?.stamp);
    await overwrite("step-1/model.safetensors", "weights");
  });

  test("reading a missing file is an error", async () => {
    await expect(open().read("step-1", ["config.json", "gone"])).rejects.toMatchObject({ code: "not-found" });
  });

  test("a read returns only the requested files", async () => {
    const files = await open().read("step-1", ["model.safetensors"]);
    expect([...files].map(([name, bytes]) => [name, new TextDecoder().decode(wholeFile(bytes))])).toEqual([
      ["model.safetensors", "weights"],
    ]);
  });
});

describe.each<[string, (cache: FileCache) => CheckpointSource]>([
  ["folder", () => openFolderSource(join(directory, "ours"), 3)],
  ["S3 prefix", (cache) => openS3Source("s3://mgrpo/ours", { cache, largeBytes: 3 })],
])("large files of a %s", (name, open) => {
  const cache = openFileCache(join(directory, "cache", name));
  const read = async () => (await open(cache).read("step-1", ["model.safetensors"])).get("model.safetensors");
  const textOf = (file: CheckpointFile | undefined) => file && Buffer.from(wholeFile(file)).toString();

  test("are read from local disk, where they are stored once; workers open them at their origin and verify the hash", async () => {
    const file = await read();
    if (!file || file instanceof Uint8Array) return expect.fail("the file was read into memory");
    expect(textOf(file)).toBe("weights");
    const { ino } = statSync(file.path);
    expect(await read()).toEqual(file);
    // Another download would replace the file.
    expect(statSync(file.path).ino).toBe(ino);
    const part = { sha256: await sha256OfFile(file), bytes: file.bytes, origin: file.origin ?? file.path };
    const files = { "model.safetensors": part };
    const manifest = { run: "r", agent: "a", version: 0, trained: false, files, stats: null, seconds: null };
    const elsewhere = openExternalFiles(openFileCache(join(directory, "cache", "elsewhere")));
    const opened = await openCheckpoints("r", memoryStore(), elsewhere).files(manifest, "inference");
    expect(textOf(opened.get("model.safetensors"))).toBe("weights");
    const another = { ...part, sha256: "0".repeat(64) };
    await expect(openExternalFiles(cache)(another)).rejects.toThrow(/is not the file that the run was started with/);
    const gone = { ...another, origin: `${part.origin}-gone` };
    await expect(openExternalFiles(cache)(gone)).rejects.toMatchObject({ code: "not-found" });
  });
});

test("a large S3 file whose cached copy is damaged is downloaded again", async () => {
  const cache = join(directory, "cache", "damaged");
  const bytes = new TextEncoder().encode("weights");
  const part = { sha256: sha256(bytes), bytes: bytes.length, origin: "s3://mgrpo/ours/step-1/model.safetensors" };
  mkdirSync(cache, { recursive: true });
  writeFileSync(join(cache, part.sha256), "WEIGHTS");
  const { path } = await openExternalFiles(openFileCache(cache))(part);
  expect(path).toBe(join(cache, part.sha256));
  expect(readFileSync(path, "utf8")).toBe("weights");
});

test("a large S3 file whose cached copy is cut short, as by a power failure, is downloaded again", async () => {
  const cache = openFileCache(join(directory, "cache", "short"));
  const source = openS3Source("s3://mgrpo/ours", { cache, largeBytes: 3 });
  const read = async () => (await source.read("step-1", ["model.safetensors"])).get("model.safetensors");
  const file = await read();
  if (!file || file instanceof Uint8Array) return expect.fail("the file was read into memory");
  writeFileSync(file.path, "wei");
  expect(await read()).toEqual(file);
  expect(readFileSync(file.path, "utf8")).toBe("weights");
});

test("a file that a killed process left in the cache is removed a day later, by the next download; folders stay as they are", async () => {
  const cache = join(directory, "cache", "abandoned");
  mkdirSync(join(cache, "partial-folder"), { recursive: true });
  const foreign = join("partial-folder", "old");
  for (const name of ["partial-old", "partial-new", "old", foreign]) writeFileSync(join(cache, name), "wei");
  const dayAgo = Date.now() / 1000 - 24 * 3600 - 60;
  for (const name of ["partial-old", "old", foreign, "partial-folder"]) utimesSync(join(cache, name), dayAgo, dayAgo);
  const { sha256: hash } = await readS3Object("s3://mgrpo/ours/step-1/model.safetensors", openFileCache(cache).add);
  expect(readdirSync(cache).sort()).toEqual([hash, "old", "partial-folder", "partial-new"].sort());
  expect(readdirSync(join(cache, "partial-folder"))).toEqual(["old"]);
});

test("the error for an unwritable cache names the cache and the variable that moves it, and does not blame the store", async () => {
  writeFileSync(join(directory, "a-file"), "");
  const cache = openFileCache(join(directory, "a-file", "cache"));
  const source = openS3Source("s3://mgrpo/ours", { cache, largeBytes: 3 });
  await expect(source.read("step-1", ["model.safetensors"])).rejects.toMatchObject({
    code: "storage-unwritable",
    message: expect.stringMatching(/a-file.* cannot be read or written \(.*\): set MGRPO_CACHE to another folder$/),
  });
});

test("the error for a large file that exists but cannot be read does not call it missing", async () => {
  const origin = join(directory, "loop.safetensors");
  symlinkSync(origin, origin);
  const part = { sha256: "0".repeat(64), bytes: 1, origin };
  await expect(openExternalFiles(openFileCache(join(directory, "cache", "loop")))(part)).rejects.toMatchObject({
    ...{ code: "not-found" },
    message: expect.stringMatching(/loop\.safetensors cannot be read \(ELOOP: .*\): make it readable$/),
  });
});

test("the error for a large file that is gone, for example because its folder was moved, says to put it back; then it is opened", async () => {
  const [folder, bytes] = [join(directory, "moved"), new TextEncoder().encode("weights")];
  const part = { sha256: sha256(bytes), bytes: bytes.length, origin: join(folder, "model.safetensors") };
  const open = openExternalFiles(openFileCache(join(directory, "cache", "moved")));
  await expect(open(part)).rejects.toThrow(`${part.origin}: no such file on this machine: put it back, or `);
  mkdirSync(folder);
  writeFileSync(part.origin, bytes);
  expect(await open(part)).toEqual({ path: part.origin, bytes: part.bytes });
});

test("a single folder is listed by name, even through a symlink; the error for one that exists but cannot be read does not call it missing", async () => {
  const source = openFolderSource(directory);
  symlinkSync(join(directory, "ours/step-1"), join(directory, "link"));
  const listed = (await source.list("link")).get("link") ?? new Map<string, unknown>();
  expect([...listed.keys()].sort()).toEqual(["config.json", "model.safetensors"]);
  expect(await source.list("nowhere")).toEqual(new Map());
  symlinkSync(join(directory, "around"), join(directory, "around"));
  await expect(source.list("around")).rejects.toMatchObject({
    ...{ code: "checkpoint-damaged" },
    message: expect.stringMatching(/around cannot be read \(ELOOP: .*\): make it readable$/),
  });
});

test("the error for a file that cannot be read or is gone says what to do", async () => {
  const folder = join(directory, "unreadable");
  mkdirSync(folder);
  symlinkSync(join(folder, "loop.json"), join(folder, "loop.json"));
  const source = openFolderSource(directory);
  await expect(source.read("unreadable", ["loop.json"])).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: expect.stringMatching(/loop\.json cannot be read \(ELOOP: .*\): make it readable$/),
  });
  await expect(source.read("unreadable", ["gone"])).rejects.toThrow(
    /gone disappeared before it was read: put it back$/,
  );
});

test("the error for a location that is missing or invalid names it", async () => {
  await expect(openFolderSource(join(directory, "nowhere")).list()).rejects.toThrow(/nowhere: no such folder to watch/);
  await expect(openFolderSource(join(directory, "ours/loose.txt")).list()).rejects.toThrow(
    /loose\.txt: cannot be read \(ENOTDIR/,
  );
  await expect(openS3Source("s3://nobody/here").list()).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(
      /^listing s3:\/\/nobody\/here: .* has no such bucket: check the URL and AWS_REGION$/,
    ),
  });
  expect(() => openS3Source("s3://")).toThrow("s3:// names no bucket: write s3://<bucket>/<prefix>");
  await expect(readS3Object("s3://mgrpo", async () => {})).rejects.toThrow(
    "s3://mgrpo names no object: write s3://<bucket>/<key>",
  );
});
