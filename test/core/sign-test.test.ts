/** @file The sign test against values worked out by hand, and its limits. */
import { expect, test } from "vitest";
import { signTest } from "../../core/sign-test.ts";

test.each([
  [0, 0, 1],
  [1, 1, 1],
  [0, 5, 2 / 32],
  // 2 (1 + 10 + 45) / 1024
  [8, 2, 112 / 1024],
])("%i against %i: p = %d", (a, b, p) => {
  expect(signTest(a, b)).toBeCloseTo(p, 12);
  expect(signTest(b, a)).toBe(signTest(a, b));
});

test("thousands of questions do not overflow", () => {
  expect(signTest(2000, 2000)).toBe(1);
  expect(signTest(2200, 1800)).toBeCloseTo(2.9e-10, 10);
});
