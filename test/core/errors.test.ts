/** @file An error and its causes, which may form a cycle; what was thrown as text. */
import { expect, test } from "vitest";
import { errorChain, errorText } from "../../core/errors.ts";

test("an error and its causes are listed once each, up to the first cause that is not an error", () => {
  const inner = new Error("inner", { cause: "a text" });
  const outer = new Error("outer", { cause: inner });
  expect(errorChain(outer)).toEqual([outer, inner]);
  expect(errorChain("a text")).toEqual([]);
  inner.cause = outer;
  expect(errorChain(outer)).toEqual([outer, inner]);
});

test("what was thrown is shown as text, an object as JSON where it can be", () => {
  expect([new Error("e"), "text", 7, null, undefined].map(errorText)).toEqual(["e", "text", "7", "null", "undefined"]);
  expect(errorText({ code: 7 })).toBe('{"code":7}');
  expect(errorText({ code: 7n })).toBe("[object Object]");
});
