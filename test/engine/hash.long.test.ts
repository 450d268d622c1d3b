/** @file SHA-256 computed in chunks, and of bytes that are too long for one hash call of Node.js. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha256, sha256InChunks, sha256InTurns } from "../../engine/hash.ts";

test("a hash computed in chunks equals the hash of the whole", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 310 }), (bytes, chunk) => {
      expect(sha256InChunks(bytes, chunk)).toBe(createHash("sha256").update(bytes).digest("hex"));
    }),
  );
});

test("input too long for one hash call of Node.js has the right hash", async () => {
  // The array is never written to, so it takes no memory.
  const zeros = new Uint8Array(2 ** 31 + 1);
  // head -c 2147483649 /dev/zero | sha256sum
  const expected = "b8030a8ab89280935633d8d991da3d9907c0f12e8b6fc3bfc515f4d440872b6e";
  expect(sha256(zeros)).toBe(expected);
  expect(await sha256InTurns(zeros)).toBe(expected);
});
