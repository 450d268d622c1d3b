/** @file The seeds of a comparison. */
import { expect, test } from "vitest";
import { parseSeeds } from "../../cli/compare/plan.ts";

test("seeds are 1 to a number, or a range", () => {
  expect(parseSeeds("3")).toEqual([1, 2, 3]);
  expect(parseSeeds("6-8")).toEqual([6, 7, 8]);
  expect(parseSeeds("7-7")).toEqual([7]);
  for (const wrong of ["0", "-2", "0-3", "5-4", "1-", "a", "1.5", "1-2000", ""]) {
    expect(() => parseSeeds(wrong), wrong).toThrow(
      `--seeds ${wrong}: write a number of seeds, at most 1000, or a range`,
    );
  }
});
