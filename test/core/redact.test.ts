/** @file Secrets are removed from texts, in each form in which backends write them, and from errors. */
import { expect, test } from "vitest";
import { redactError, redactor } from "../../core/redact.ts";

const KEY = 'k+y/9~Zq (3)"vX=';

test.each([
  ["a header", `Bearer ${KEY}`],
  ["a header without its scheme", KEY],
  ["JSON", JSON.stringify(KEY).slice(1, -1)],
  ["JSON by PHP", 'k+y\\/9~Zq (3)\\"vX='],
  ["JSON by .NET", 'k\\u002By/9~Zq (3)\\"vX='],
  ["a URL's path", encodeURIComponent(KEY)],
  ["a URL's query", "k%2By%2F9%7EZq+%283%29%22vX%3D"],
])("a secret is removed as it is written in %s", (_, written) => {
  expect(redactor([`Bearer ${KEY}`])(`{"error":"no such key: ${written}."}`)).toBe('{"error":"no such key: ***."}');
});

test("values that are too short to be secrets stay", () => {
  expect(redactor(["debug"])("debug: on")).toBe("debug: on");
});

test("an error is redacted with its causes, whatever their type, and with the errors of an AggregateError", () => {
  const inner = new Error("inner secret-key", { cause: "a text with secret-key" });
  const refused = new TypeError("refused secret-key", { cause: inner });
  const all = new AggregateError([refused, "secret-key"], "all failed");
  const error = new Error("secret-key failed", { cause: all });
  // Causes in a cycle must not make `redactError` loop forever.
  all.cause = error;
  expect(redactError(redactor(["secret-key"]), error)).toBe(error);
  const [first, second]: unknown[] = all.errors;
  expect([error.message, first, refused.message, inner.message, inner.cause, second]).toEqual([
    "*** failed",
    refused,
    "refused ***",
    "inner ***",
    "a text with ***",
    "***",
  ]);
});

test("a property of an error may contain itself", () => {
  const request: Record<string, unknown> = { header: "secret-key", twice: ["a"] };
  request["again"] = request["twice"];
  request["response"] = [{ request }];
  const error = Object.assign(new Error("failed"), { request });
  redactError(redactor(["secret-key"]), error);
  expect(error.request).toEqual({ header: "***", twice: ["a"], again: ["a"], response: [{ request: "[circular]" }] });
});
