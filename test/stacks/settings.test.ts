/** @file MGRPO_MONTHLY_USD, a setting of a deployment: only a finite amount above 0 is accepted. */
import { expect, test } from "vitest";
import { readSettings } from "../../stacks/settings.ts";

const monthly = (text: string) => readSettings({ stage: "dev" }, { MGRPO_MONTHLY_USD: text }).monthlyUsd;

test.each(["", "0", "-5", "ten", "Infinity"])("MGRPO_MONTHLY_USD=%s is refused", (text) => {
  expect(() => monthly(text)).toThrow(`MGRPO_MONTHLY_USD=${text}: write an amount in US dollars, e.g. 100`);
});

test("MGRPO_MONTHLY_USD is an amount in US dollars", () => {
  expect(monthly("99.5")).toBe(99.5);
});
