/** @file A body that cannot be received leaves no reserved space and no file. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { receiveBytes, receiveFile } from "../../../../adapters/local-cloud/s3/receive.ts";

/** Space without a limit. `reserved`: returns the reserved bytes, and the number of reservations that have not ended. */
function countedSpace() {
  let bytesReserved = 0;
  let pending = 0;
  return {
    async reserve(bytes: number) {
      bytesReserved += bytes;
      pending += 1;
      return {
        wrote() {},
        end() {
          pending -= 1;
        },
      };
    },
    release(bytes: number) {
      bytesReserved -= bytes;
    },
    reserved: () => [bytesReserved, pending],
  };
}

test("if the file cannot be opened, its space is released", async () => {
  const space = countedSpace();
  const folder = join(import.meta.dirname, "no-such-folder");
  await expect(receiveBytes(new Uint8Array(7), folder, space)).rejects.toMatchObject({ code: "ENOENT" });
  expect(space.reserved()).toEqual([0, 0]);
});

/** A request with these headers, whose body has 1,000 pieces of 1,000 bytes. `sent`: how many of them have been read. */
function longRequest(headers: Record<string, string>) {
  let sent = 0;
  async function* pieces() {
    while (sent < 1000) {
      sent += 1;
      yield Buffer.from(`3e8\r\n${"x".repeat(1000)}\r\n`);
    }
    yield Buffer.from("0\r\n\r\n");
  }
  return { request: { headers, iterator: pieces } as unknown as IncomingMessage, sent: () => sent };
}

test.each([
  ["longer", 2500, 3],
  ["shorter", 2_000_000, 1000],
])(
  "a body that is %s than it declares is refused, and nothing is read after the piece that exceeds the reserved space",
  async (_, declared, pieces) => {
    const folder = mkdtempSync(join(tmpdir(), "mgrpo-receive-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const { request, sent } = longRequest({
      "content-encoding": "aws-chunked",
      "x-amz-decoded-content-length": String(declared),
    });
    const space = countedSpace();
    await expect(receiveFile(request, folder, space, "object")).rejects.toMatchObject({ code: "IncompleteBody" });
    expect(sent()).toBeLessThanOrEqual(pieces);
    expect(readdirSync(folder)).toEqual([]);
    expect(space.reserved()).toEqual([0, 0]);
  },
);
