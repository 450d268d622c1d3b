/** @file HTTP headers: which may be sent, and the pause that Retry-After asks for. */
import { expect, onTestFinished, test, vi } from "vitest";
import { isHeader, retryAfterSeconds } from "../../adapters/http-header.ts";

test.each([
  ["authorization", "Bearer k+y/9=", true],
  ["x-key", "", true],
  ["an authorization", "Bearer key", false],
  ["", "key", false],
  ["x-key", "two\nlines", false],
  ["x-key", "“quoted”", false],
])("a header named %j with the value %j may be sent: %j", (name, value, isAllowed) => {
  expect(isHeader(name, value)).toBe(isAllowed);
});

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
  const now = vi.spyOn(Date, "now").mockReturnValue(Date.parse("2026-01-01T12:00:00Z"));
  onTestFinished(() => now.mockRestore());
  expect(retryAfterSeconds(retryAfter)).toBe(seconds);
});
