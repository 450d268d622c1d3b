/** @file The lock of a directory: where it cannot be made, one line names the path and the remedy. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockDirectory } from "../../../adapters/local-cloud/lock.ts";
import { freshDirectory } from "../../fakes/local-store.ts";

test("a file where the folder should be is refused with the remedy, and so is the next attempt", async () => {
  const file = join(await freshDirectory(), "file");
  await writeFile(file, "");
  const refused = {
    code: "storage-unwritable",
    message: expect.stringContaining("a file is where a folder should be: remove that file, or choose another folder"),
  };
  for (let attempt = 0; attempt < 2; attempt++) {
    await expect(lockDirectory(join(file, "state"))).rejects.toMatchObject(refused);
  }
});
