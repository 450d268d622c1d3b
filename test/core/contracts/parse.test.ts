/** @file An error of parsing names what is wrong, also where a value fits no member of a union. */
import { expect, test } from "vitest";
import * as z from "zod";
import { AppResult } from "../../../core/contracts/app-rollout.ts";
import { parse } from "../../../core/contracts/parse.ts";
import { RunnerConfig } from "../../../core/contracts/runner.ts";

test("a value that fits no member of a union is refused with what each member lacks", () => {
  expect(() => parse(RunnerConfig, "natve", "runner", "config-invalid")).toThrow('"native"|"recipe", or ');
  expect(() => parse(AppResult, { answer: 5 }, "the result", "app-failed")).toThrow(
    "the result: answer: Invalid input: expected string, received number, or reward: ",
  );
});

test("a union's own message takes the place of its members'", () => {
  const schema = z.union([z.literal(1), z.literal(2)], "must be 1 or 2");
  expect(() => parse(schema, 3, "level")).toThrow(/^level: must be 1 or 2$/);
});
