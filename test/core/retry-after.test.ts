/** @file The pause that an HTTP response asks for. */
import { expect, test } from "vitest";
import { retryAfterSeconds } from "../../core/retry-after.ts";

const NOW = Date.parse("2026-01-01T12:00:00Z");

test.each<[string | null | undefined, number]>([
  ["30", 30],
  ["0.5", 0.5],
  ["Thu, 01 Jan 2026 12:01:00 GMT", 60],
  ["Thu, 01 Jan 2026 11:00:00 GMT", 0],
  ["-5", 0],
  ["soon", 0],
  ["Infinity", 0],
  ["", 0],
  [null, 0],
  [undefined, 0],
])("Retry-After: %j asks for a pause of %d seconds", (retryAfter, seconds) => {
  expect(retryAfterSeconds((name) => (name === "retry-after" ? retryAfter : null), NOW)).toBe(seconds);
});

test.each<[Record<string, string>, number]>([
  [{ "retry-after-ms": "1500", "retry-after": "30" }, 1.5],
  [{ "retry-after-ms": "soon", "retry-after": "30" }, 30],
  [{ "retry-after-ms": "1500" }, 1.5],
  [{}, 0],
])("%j asks for a pause of %d seconds", (headers, seconds) => {
  expect(retryAfterSeconds((name) => headers[name], NOW)).toBe(seconds);
});
