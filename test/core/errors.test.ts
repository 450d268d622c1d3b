/** @file The causes of an error, which may form a cycle. */
import { expect, test } from "vitest";
import { errorChain } from "../../core/errors.ts";

test("an error's causes are listed once each, up to the first that is not an error", () => {
  const inner = new Error("inner", { cause: "a text" });
  const outer = new Error("outer", { cause: inner });
  expect(errorChain(outer)).toEqual([outer, inner]);
  expect(errorChain("a text")).toEqual([]);
  inner.cause = outer;
  expect(errorChain(outer)).toEqual([outer, inner]);
});
