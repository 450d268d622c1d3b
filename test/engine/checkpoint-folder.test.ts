/**
 * @file Checkpoint folders: what is read from one, and what is refused. A reader keeps the files that it opened, even if a checkpoint is written
 * over them; a failed write leaves the earlier checkpoint; what killed processes left is deleted.
 */
import { mkdir, mkdtemp, open, readdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { readCheckpoint, writeCheckpoint } from "../../engine/checkpoint/folder.ts";

test("a path without a folder is reported as such; any other fault keeps its own error", async () => {
  const parent = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(parent, { recursive: true, force: true }));
  await writeFile(join(parent, "file"), "");
  await symlink("loop", join(parent, "loop"));
  for (const name of ["missing", "file"]) {
    const fault = { code: "not-found", message: expect.stringContaining("no such folder") };
    await expect(readCheckpoint(join(parent, name))).rejects.toMatchObject(fault);
  }
  await expect(readCheckpoint(join(parent, "loop"))).rejects.toMatchObject({ code: "ELOOP" });
});

test("a link to a missing file, as in a hub's cache that was partly deleted, is named; unfinished files are left out", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "config.json"), "{}");
  await writeFile(join(folder, `config.json.partial-${hostname()}-${process.pid}`), "{");
  expect([...(await readCheckpoint(folder)).keys()]).toEqual(["config.json"]);
  await symlink("../../blobs/0123", join(folder, "model.safetensors"));
  await expect(readCheckpoint(folder)).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message: expect.stringContaining(join(folder, "model.safetensors")),
  });
});

test("a large file stays on disk whatever its format, and folders are left out, even linked ones", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const large = join(folder, "pytorch_model.bin");
  await writeFile(large, "");
  // Sparse: it takes no space on the disk.
  await truncate(large, LARGE_FILE_BYTES + 1);
  await writeFile(join(folder, "config.json"), "{}");
  await mkdir(join(folder, "onnx"));
  await symlink("onnx", join(folder, "linked"));
  const files: [string, CheckpointFile][] = [
    ["config.json", new TextEncoder().encode("{}")],
    ["pytorch_model.bin", { path: large, bytes: LARGE_FILE_BYTES + 1 }],
  ];
  expect(await readCheckpoint(folder)).toEqual(new Map(files));
});

test("a checkpoint is written over its own files; a reader of the earlier ones keeps what it opened", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const large = join(folder, "model.safetensors");
  await writeFile(large, "weights");
  await truncate(large, LARGE_FILE_BYTES + 1);
  await writeFile(join(folder, "config.json"), "{}");
  const readers = [await open(large), await open(join(folder, "config.json"))] as const;
  onTestFinished(async () => {
    for (const reader of readers) await reader.close();
  });
  const files = await readCheckpoint(folder);
  await writeCheckpoint(folder, new Map([...files, ["config.json", new TextEncoder().encode("[]")]]));
  expect((await readdir(folder)).sort()).toEqual(["config.json", "model.safetensors"]);
  expect((await readFile(large)).subarray(0, 7).toString()).toBe("weights");
  expect((await readCheckpoint(folder)).get("model.safetensors")).toEqual(files.get("model.safetensors"));
  expect(await readFile(join(folder, "config.json"), "utf8")).toBe("[]");
  expect(await readers[1].readFile("utf8")).toBe("{}");
  // 0 links: the open file is no longer the one in the folder.
  expect((await readers[0].stat()).nlink).toBe(0);
});

test.each(["../config.json", "sub/config.json", "..", ""])(
  "a file named '%s' is refused: it is not in the folder",
  async (name) => {
    const parent = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
    onTestFinished(() => rm(parent, { recursive: true, force: true }));
    const files = new Map([[name, new Uint8Array()]]);
    await expect(writeCheckpoint(join(parent, "model"), files)).rejects.toMatchObject({ code: "config-invalid" });
    expect(await readdir(parent)).toEqual([]);
  },
);

test("a checkpoint of which one file cannot be written leaves the earlier one as it was", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
  const earlier = new Map(["model.safetensors.index.json", ...shards].map((name) => [name, Uint8Array.of(1)] as const));
  await writeCheckpoint(folder, earlier);
  const files = new Map<string, CheckpointFile>([...earlier.keys()].map((name) => [name, Uint8Array.of(2)]));
  files.set(shards[1] ?? "", { path: join(folder, "missing"), bytes: 1 });
  await expect(writeCheckpoint(folder, files)).rejects.toThrow();
  expect(await readCheckpoint(folder)).toEqual(earlier);
});

test("what killed processes left of a file is deleted when it is written again; what live ones are writing stays", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  // No system assigns process ids as large as 2^30.
  const [left, other] = [2 ** 30, process.ppid].map((pid) => `config.json.partial-${hostname()}-${pid}`);
  for (const name of [left, other]) await writeFile(join(folder, name ?? ""), "{");
  await writeCheckpoint(folder, new Map([["config.json", new TextEncoder().encode("{}")]]));
  expect((await readdir(folder)).sort()).toEqual(["config.json", other]);
});

test.each<[string, string[]]>([
  ["model.safetensors", ["model.safetensors.index.json", "model-00001-of-00002.safetensors"]],
  ["optimizer.safetensors", ["optimizer.safetensors.index.json"]],
  ["adapter_config.json", ["model.safetensors"]],
])("a checkpoint is not written beside %s, which would be read as a part of it", async (other, names) => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-folder-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, other), "");
  const files = new Map(names.map((name) => [name, new Uint8Array()] as const));
  await expect(writeCheckpoint(folder, files)).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringContaining(`it has ${other}, which is not part of the checkpoint`),
  });
  expect(await readdir(folder)).toEqual([other]);
  await writeCheckpoint(folder, new Map([...files, [other, new Uint8Array()]]));
  expect((await readdir(folder)).sort()).toEqual([...names, other].sort());
});
