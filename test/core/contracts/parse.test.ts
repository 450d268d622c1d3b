/** @file An error of parsing names what is wrong, also where a value fits no member of a union. */
import { expect, test } from "vitest";
import { AppResult } from "../../../core/contracts/app-rollout.ts";
import { parse } from "../../../core/contracts/parse.ts";
import { RunnerConfig } from "../../../core/contracts/runner.ts";

test("a value that fits no member of a union is refused with what each member lacks", () => {
  expect(() => parse(RunnerConfig, "natve", "runner", "config-invalid")).toThrow('"native"|"recipe", or ');
  expect(() => parse(AppResult, { answer: 5 }, "the result", "app-failed")).toThrow(
    "the result: answer: Invalid input: expected string, received number, or reward: ",
  );
});
