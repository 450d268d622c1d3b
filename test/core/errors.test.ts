/** @file An error and its causes, which may form a cycle; what was thrown as text. */
import { runInNewContext } from "node:vm";
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

test("what was thrown is shown as text, a plain object as JSON", () => {
  expect([new Error("e"), "text", 7, null, undefined].map(errorText)).toEqual(["e", "text", "7", "null", "undefined"]);
  expect(errorText({ code: 7 })).toBe('{"code":7}');
  expect(errorText(runInNewContext("new TypeError('elsewhere')"))).toBe("TypeError: elsewhere");
  expect([{ code: 7n }, Object.create(null)].map(errorText)).toEqual(Array(2).fill("an object that has no text"));
});
