/** @file Checkpoint folders that cannot be read, or hold more than a checkpoint. */
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import type { CheckpointFile } from "../../core/ports.ts";
import { readCheckpoint } from "../../engine/checkpoint/folder.ts";

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
