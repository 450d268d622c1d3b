/** @file Options of a comparison on the fixture recipe `relay`, and finished runs whose statistics can be worked out by hand. */
import { expect } from "vitest";
import { type CompareOptions, entriesOf } from "../../cli/compare/plan.ts";
import type { FinishedRun } from "../../cli/compare/records.ts";
import type { ArmRuns } from "../../cli/compare/summary.ts";
import type { HeldOutScores } from "../../cli/held-out-scores.ts";
import { buildReport } from "../../cli/run-report.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { config, groups, manifests, step } from "./records.ts";

/** What identifies the questions and base models of a run, in its provenance. */
export const IDENTIFIED = { questions: "0".repeat(64), bases: {} };

export const options: CompareOptions = {
  arms: ["mgrpo"],
  seeds: [1, 2],
  jobs: 1,
  vary: [],
  set: ["temperature=0.9"],
  from: [],
  name: "c",
  mixed: false,
};
export const source = { recipe, recipeName: "relay", options };
export const QUESTIONS = 8;

/** A run whose untrained team answers the first question correctly, and whose trained team answers the first `correct` questions correctly. */
export function finished(run: string, seed: number, correct: number, tokens = 30): FinishedRun {
  const perStep = [
    {
      ...summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 2),
      sampledTokens: tokens,
    },
  ];
  const scores = (team: number, correct: number): HeldOutScores => ({
    ...{ team, suite: "sampled", temperature: 1, closedBook: false },
    questions: Array.from({ length: QUESTIONS }, (_, i) => ({
      ...{ question: `q${i}`, kind: i % 2 === 0 ? "even" : "odd", n: 1, correct: Number(i < correct) },
      studies: { care: { n: i === 0 ? 2 : 0, correct: i === 0 ? team : 0 } },
    })),
  });
  const interval = { low: 0, high: 1 };
  const study = { study: "care", expected: "care is taken", suite: "sampled", temperature: 1 };
  const report = buildReport({
    config: RunConfig.parse({ ...config, run, seed }),
    evaluations: [],
    gains: [],
    caseStudies: [{ ...study, before: { n: 2, correct: 0, interval }, after: { n: 2, correct: 1, interval } }],
    perStep,
    ...{ writes: { requests: 8, bytes: 4000, units: 12 }, scoringSeconds: 0.5, totalSeconds: 1800, agents: {} },
  });
  return {
    by: { commit: `abc${seed}`, machine: "m" },
    mismatches: [],
    report,
    heldOut: [scores(0, 1), scores(1, correct)],
  };
}

export const [mgrpo = expect.fail(), frozen = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
export const arms: ArmRuns[] = [
  { entry: mgrpo, runs: [finished("a1", 1, 6), finished("a2", 2, 8)], budgets: new Map() },
  {
    entry: { ...frozen, label: 'main-only, x={"a":1,"b":2}' },
    runs: [finished("b2", 2, 4, 20)],
    budgets: new Map([["b2", 30]]),
  },
];
export const about = {
  name: "c",
  recipe: "tiny",
  command: "cmd",
  start: "mgrpo: the recipe's base models",
  questions: "the recipe's",
  seeds: [1, 2],
  missing: ["b1"],
};
