/** @file A parse error says what is wrong, even if a value matches no member of a union. */
import { expect, test } from "vitest";
import * as z from "zod";
import { AppResult } from "../../../core/contracts/app-rollout.ts";
import { parse } from "../../../core/contracts/parse.ts";
import { RunnerConfig } from "../../../core/contracts/runner.ts";

test("a value that matches no member of a union is refused with the reason of each member", () => {
  expect(() => parse(RunnerConfig, "natve", "runner", "config-invalid")).toThrow('"native"|"recipe", or ');
  expect(() => parse(AppResult, { answer: 5 }, "the result", "app-failed")).toThrow(
    "the result: answer: Invalid input: expected string, received number, or reward: ",
  );
});

test("a reason that members of a union share is given once", () => {
  expect(() => parse(AppResult, undefined, "the result")).toThrow(
    /^the result: Invalid input: expected object, received undefined$/,
  );
});

test("if members of a union find a fault inside the value, the message gives only their reasons", () => {
  const facts = { world: 7, hint: undefined };
  const line =
    /^facts: hint: Invalid input: expected string, received undefined, or .*expected null, received undefined/;
  expect(() => parse(z.json(), facts, "facts")).toThrow(line);
  expect(() => parse(z.json(), [1, 2n], "facts")).toThrow(/^facts: 1: Invalid input: expected string, received bigint/);
});

test("a message lists five issues and says how many more there are", () => {
  const six = Array.from({ length: 6 }, (_, i) => `key${i}`);
  const schema = z.strictObject(Object.fromEntries(six.map((key) => [key, z.string()])));
  expect(() => parse(schema, {}, "six")).toThrow(/^six: key0: .*; key4: [^;]*; and 1 more$/);
  expect(() => parse(schema, { key5: "" }, "six")).toThrow(/^six: key0: .*; key4: [^;]*$/);
});

test("a union's own message replaces those of its members", () => {
  const schema = z.union([z.literal(1), z.literal(2)], "must be 1 or 2");
  expect(() => parse(schema, 3, "level")).toThrow(/^level: must be 1 or 2$/);
});
