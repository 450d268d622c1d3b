/** @file Warnings about a run: eq 11, at most once in ten steps. */
import { expect, test } from "vitest";
import type { StepSummary } from "../../cli/step-summary.ts";
import { alignmentWarnings } from "../../cli/warnings.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { config } from "./records.ts";

const stepsOf = (...histograms: number[][]) =>
  histograms.map((searcher) => ({ calls: { searcher } }) as unknown as StepSummary);
const under = (alignment: object) => RunConfig.parse({ ...config, algorithm: { alignment } });

test("more than 1 % of the rollouts above d: one line after every tenth step", () => {
  const often = stepsOf(...Array<number[]>(9).fill([0, 64]), [0, 50, 0, 14]);
  const [line, ...others] = alignmentWarnings(under({ d: 2 }), often);
  expect(line).toMatch(/2\.2 % .* 'searcher' more than d = 2 .* raise algorithm\.alignment\.d/);
  expect(others).toEqual([]);
  expect(alignmentWarnings(under({ d: 2 }), often.slice(1))).toEqual([]);
  expect(alignmentWarnings(under({ d: 3 }), often)).toEqual([]);
  expect(alignmentWarnings(under({ d: 2, mode: "none" }), often)).toEqual([]);
});
