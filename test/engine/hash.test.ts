/** @file SHA-256 of bytes that are too long for one call. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha256InChunks } from "../../engine/hash.ts";

test("a hash computed in chunks equals the hash of the whole", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 310 }), (bytes, chunk) => {
      expect(sha256InChunks(bytes, chunk)).toBe(createHash("sha256").update(bytes).digest("hex"));
    }),
  );
});
