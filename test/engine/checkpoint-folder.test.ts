/** @file A checkpoint folder that cannot be read. */
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
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
