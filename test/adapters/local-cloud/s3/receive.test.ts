/** @file A body that cannot be received leaves no reserved space. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { receiveBytes } from "../../../../adapters/local-cloud/s3/receive.ts";

test("if the file cannot be opened, its space is released", async () => {
  let reserved = 0;
  let pending = 0;
  const space = {
    async reserve(bytes: number) {
      reserved += bytes;
      pending += 1;
      return {
        wrote() {},
        end() {
          pending -= 1;
        },
      };
    },
    release(bytes: number) {
      reserved -= bytes;
    },
  };
  const folder = join(import.meta.dirname, "no-such-folder");
  await expect(receiveBytes(new Uint8Array(7), folder, space)).rejects.toMatchObject({ code: "ENOENT" });
  expect([reserved, pending]).toEqual([0, 0]);
});
