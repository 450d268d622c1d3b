/** @file An error and its causes, which may form a cycle. */
import { expect, test } from "vitest";
import { errorChain } from "../../core/errors.ts";

test("an error and its causes are listed once each, up to the first cause that is not an error", () => {
  const inner = new Error("inner", { cause: "a text" });
  const outer = new Error("outer", { cause: inner });
  expect(errorChain(outer)).toEqual([outer, inner]);
  expect(errorChain("a text")).toEqual([]);
  inner.cause = outer;
  expect(errorChain(outer)).toEqual([outer, inner]);
});
