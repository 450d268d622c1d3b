/**
 * @file Numbers and model names of the dashboard as text: what is rounded up carries into the next unit, small axis numbers stay distinct, and
 * only long absolute paths are abridged.
 */
import { expect, test } from "vitest";
import { amount, axisNumber, duration, shortModel, size } from "../../ui/app/parts/format.ts";

test.each([
  [null, "–"],
  [0, "0 s"],
  [59.4, "59 s"],
  [59.6, "1 min 0 s"],
  [119.6, "2 min 0 s"],
  [3599.7, "1 h 0 min"],
  [7190, "2 h 0 min"],
  [7260, "2 h 1 min"],
] as const)("%s seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));

test.each([
  [0, "0 bytes"],
  [999, "999 bytes"],
  [1000, "1 KB"],
  [1234, "1.23 KB"],
  [999_999, "1 MB"],
  [12_345_678, "12.3 MB"],
  [999_999_999, "1 GB"],
  [5e12, "5000 GB"],
] as const)("%d bytes are %s", (bytes, text) => expect(size(bytes)).toBe(text));

test.each([
  [undefined, "–"],
  [0.00012345, "0.000123"],
  [3, "3"],
  [999.7, "1,000"],
  [1234.5, "1,235"],
  [1_234_567, "1,234,567"],
] as const)("the amount %s is %s", (value, text) => expect(amount(value)).toBe(text));

test.each([
  [0, "0"],
  [0.0025, "0.0025"],
  [0.1 + 0.2, "0.3"],
  [1_250_000, "1,250,000"],
  [0.00015, "1.5e-4"],
  [-2e-7, "-2e-7"],
] as const)("%s on an axis is %s", (value, text) => expect(axisNumber(value)).toBe(text));

test.each([
  ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"],
  ["models/a/b/c/d", "models/a/b/c/d"],
  ["/models/team/main", "/models/team/main"],
  ["/home/models/team/main", "…/models/team/main"],
])("model %s is shown as %s", (model, text) => expect(shortModel(model)).toBe(text));
