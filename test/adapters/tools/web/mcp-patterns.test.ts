/** @file Which patterns of an MCP tool's schema are matched here, in linear time, and which are left to its server. */
import { expect, test } from "vitest";
import { linearPattern } from "../../../../adapters/tools/web/mcp/patterns.ts";

test("a pattern whose program would be too large is left to the server, and one of ordinary size is not", () => {
  expect(linearPattern("^(?:a{1,100}){1,100}$").test("b")).toBe(true);
  expect(linearPattern("^a{1,100}$").test("b")).toBe(false);
});

test("a text whose whitespace RE2's `\\s` does not match is left to the server only if the pattern has `\\s`", () => {
  const words = linearPattern("^\\w+(?:\\s\\w+)*$");
  expect(["two words", "two\u00a0words", "two-words"].map((text) => words.test(text))).toEqual([true, true, false]);
  expect(linearPattern("^[a-z ]+$").test("two\u00a0words")).toBe(false);
});
