/** @file JSON as text: reformatting keeps its value and the digits of its numbers, and a member's value is found as it is written. */
import { expect, test } from "vitest";
import { memberText, reformat } from "../../../core/conversation/json-text.ts";

test("reformat changes only whitespace and escapes, and nothing in text that is not JSON", () => {
  const text = '{ "a\\u003c" :[1.0,  12345678901234567890, "x, \\"y\\": {"],"b":null }';
  expect(reformat(text, "")).toBe('{"a<":[1.0,12345678901234567890,"x, \\"y\\": {"],"b":null}');
  expect(reformat(text, " ")).toBe('{"a<": [1.0, 12345678901234567890, "x, \\"y\\": {"], "b": null}');
  expect(reformat("{not JSON, }", " ")).toBe("{not JSON, }");
});

test.each([
  [
    '{"name": "f", "arguments": {"id": 9007199254740993, "tags": ["a", {"arguments": 1}]}}',
    '{"id": 9007199254740993, "tags": ["a", {"arguments": 1}]}',
  ],
  ['{"x": {"arguments": 1}, "arguments" : {} , "name": "arguments"}', "{}"],
  ['{"arguments": 1, "arguments": [2, "}"]}', '[2, "}"]'],
  ['{"\\u0061rguments": "a \\" b"}', '"a \\" b"'],
  ['{"name": "arguments"}', undefined],
  ["{}", undefined],
])("memberText returns, as text, the member whose value JSON.parse returns: %s", (object, expected) => {
  expect(memberText(object, "arguments")).toBe(expected);
  const parsed: unknown = JSON.parse(object).arguments;
  expect(expected && JSON.parse(expected)).toEqual(parsed);
});
