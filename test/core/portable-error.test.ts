/** @file Errors as plain data: what arrives of a value that another thread throws. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import { fromPortable, toPortable } from "../../core/portable-error.ts";

const sent = (error: unknown) => fromPortable(structuredClone(toPortable(error)));

test("an error arrives with its code, evidence, unknown names and cause", () => {
  const error = new MgrpoError("not-found", "no agent 'maim'", {
    retryable: true,
    evidence: { agent: "maim" },
    unknownNames: [{ unknown: "maim", known: ["main"] }],
    cause: new Error("undefined"),
  });
  expect(sent(error)).toEqual(error);
  expect(sent(error)).toMatchObject({
    ...{ code: "not-found", retryable: true, evidence: { agent: "maim" } },
    unknownNames: [{ unknown: "maim", known: ["main"] }],
    cause: { message: "undefined" },
  });
});

test("evidence that cannot be cloned is left out", () => {
  expect(sent(new MgrpoError("deadline", "late", { evidence: { stop() {} } }))).toMatchObject({
    ...{ code: "deadline", evidence: undefined },
  });
});

test("an error among its own causes arrives", () => {
  const error = new Error("outer");
  error.cause = new Error("inner", { cause: error });
  expect(sent(error)).toMatchObject({ message: "outer", cause: { message: "inner", cause: { message: "outer" } } });
});

test("a thrown value that is not an error arrives as an error with its text", () => {
  expect(sent("stop")).toEqual(new Error("stop"));
});
