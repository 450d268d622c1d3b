/** @file Suggestions for mistyped names. */
import { expect, test } from "vitest";
import { didYouMean } from "../../cli/terminal/nearest.ts";

test.each([
  ["clipHi", ["clipLow", "clipHigh"], "; did you mean 'clipHigh'?"],
  ["aligment", ["ratio", "alignment"], "; did you mean 'alignment'?"],
  ["solo", ["mgrpo", "main-only"], ""],
  ["mgrpo", ["mgrpo"], ""],
  ["x", [], ""],
])("'%s' among the names %j: the hint is %j", (word, known, hint) => {
  expect(didYouMean(word, known)).toBe(hint);
});
