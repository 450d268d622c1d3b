/** @file Which HTTP headers may be sent. */
import { expect, test } from "vitest";
import { isHeader } from "../../adapters/http-header.ts";

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
