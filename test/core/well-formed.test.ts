/** @file Unpaired surrogates become U+FFFD; everything else stays. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { toWellFormed, toWellFormedJson } from "../../core/well-formed.ts";

test("a pair stays, and each half without its other becomes U+FFFD", () => {
  expect(toWellFormed("\u{1f600} \ud83d \ude00\ud83d")).toBe("\u{1f600} \ufffd \ufffd\ufffd");
});

test("in JSON, the same holds for strings at any depth and for keys; a backslash before `ud83d` is text", () => {
  const value = { "\ud83d": ["\ude00", { deep: "\\ud83d \\\ud83d" }], n: 1.5, none: null };
  expect(toWellFormedJson(value)).toEqual({ "\ufffd": ["\ufffd", { deep: "\\ud83d \\\ufffd" }], n: 1.5, none: null });
});

test("any text comes out as from a round trip through UTF-8", () => {
  const units = fc.array(fc.constantFrom(0x5c, 0x75, 0x64, 0x61, 0x22, 0xd83d, 0xde00, 0xdbff, 0xffff), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(units, (codes) => {
      const text = String.fromCharCode(...codes);
      const expected = Buffer.from(text).toString();
      expect(toWellFormed(text)).toBe(expected);
      expect(toWellFormedJson([text])).toEqual([expected]);
    }),
  );
});
