/** @file The lock of a directory: where it cannot be made, the error says what to do. A cloud releases it even if a server fails to stop. */
import { writeFile } from "node:fs/promises";
import { Server } from "node:http";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { startLocalCloud } from "../../../adapters/local-cloud/cloud.ts";
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

test("if a server fails to stop, the rest is closed all the same, and the failure is reported", async () => {
  const directory = await freshDirectory();
  const cloud = await startLocalCloud({ directory });
  const closing = vi.spyOn(Server.prototype, "close").mockImplementationOnce(function (this: Server, callback) {
    closing.mockRestore();
    return this.close(() => callback?.(new Error("it is stuck")));
  });
  await expect(cloud.close()).rejects.toThrow("it is stuck");
  // The lock is released last.
  const next = await startLocalCloud({ directory });
  await next.close();
});
