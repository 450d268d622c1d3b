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

test("a union's own message replaces those of its members", () => {
  const schema = z.union([z.literal(1), z.literal(2)], "must be 1 or 2");
  expect(() => parse(schema, 3, "level")).toThrow(/^level: must be 1 or 2$/);
});
