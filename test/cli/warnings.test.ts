/** @file Warnings of a run: a first step that taught nothing, and eq 11, once per ten steps. */
import { expect, test } from "vitest";
import type { StepSummary } from "../../cli/step-summary.ts";
import { stepWarnings } from "../../cli/warnings.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { config } from "./records.ts";

const stepsOf = (...histograms: number[][]) =>
  histograms.map((searcher) => ({ calls: { searcher } }) as unknown as StepSummary);
const firstStep = (zeroVariance: number, wellFormed: number) => [
  { groups: 4, zeroVariance, wellFormed, calls: {} } as unknown as StepSummary,
];
const under = (alignment: object) => RunConfig.parse({ ...config, algorithm: { alignment } });

test("more than 1 % of the rollouts above d: one line after every tenth step", () => {
  const often = stepsOf(...Array<number[]>(9).fill([0, 64]), [0, 50, 0, 14]);
  const [line, ...others] = stepWarnings(under({ d: 2 }), often);
  expect(line).toMatch(/2\.2 % .* 'searcher' more than d = 2 .* raise algorithm\.alignment\.d/);
  expect(others).toEqual([]);
  expect(stepWarnings(under({ d: 2 }), often.slice(1))).toEqual([]);
  expect(stepWarnings(under({ d: 3 }), often)).toEqual([]);
  expect(stepWarnings(under({ d: 2, mode: "none" }), often)).toEqual([]);
});

test("a first step without variance: why, and what to do; later ones are not repeated", () => {
  const [malformed] = stepWarnings(under({}), firstStep(4, 0));
  expect(malformed).toMatch(
    /no rollout is well-formed.*show \S+ 0; then teach it from demonstrations first: .* sft \S+ --to/,
  );
  expect(stepWarnings(under({}), firstStep(4, 0.5))[0]).toMatch(
    /all rollouts of a question have the same reward.*show \S+ 0/,
  );
  expect(stepWarnings(under({}), firstStep(3, 0.5))).toEqual([]);
  expect(stepWarnings(under({}), [...firstStep(4, 0), ...firstStep(4, 0)])).toEqual([]);
});
