/** @file A secret is removed from a text however it is written there. */
import { expect, test } from "vitest";
import { redactor } from "../../adapters/redact.ts";

const KEY = 'k+y/9Zq3"vX=';

test.each([
  ["a header", `Bearer ${KEY}`],
  ["a header without its scheme", KEY],
  ["JSON", JSON.stringify(KEY).slice(1, -1)],
  ["JSON by PHP", 'k+y\\/9Zq3\\"vX='],
  ["JSON by .NET", 'k\\u002By/9Zq3\\"vX='],
  ["a URL", encodeURIComponent(KEY)],
])("as in %s", (_, written) => {
  expect(redactor([`Bearer ${KEY}`])(`{"error":"no such key: ${written}."}`)).toBe('{"error":"no such key: ***."}');
});

test("values that are too short to be secrets stay", () => {
  expect(redactor(["debug"])("debug: on")).toBe("debug: on");
});
