/**
 * @file The results of a comparison: each arm before and after training, and its difference from the first arm, with 95% intervals over seeds
 * and questions (core/training/bootstrap.ts); each run with intervals over questions (core/training/confidence-interval.ts). Pure. The schema
 * is that of results/<name>/summary.json.
 */
import * as z from "zod";
import { Arm } from "../../core/contracts/config.ts";
import { RunName } from "../../core/contracts/names.ts";
import { parse } from "../../core/contracts/parse.ts";
import { accuracyInterval, sumTallies } from "../../core/training/confidence-interval.ts";
import { Measured } from "../../ui/compare-view.ts";
import {
  comparedSuites,
  EMPTY_TALLY,
  type End,
  type EvaluatedRun,
  measureArm,
  refuseOtherQuestions,
  type Suite,
  scoresOf,
  type TallyOf,
} from "./measure.ts";
import type { Entry } from "./plan.ts";
import type { FinishedRun, TrainedRun } from "./records.ts";

const Share = z.strictObject({
  n: z.int(),
  correct: z.number(),
  interval: z.strictObject({ low: z.number(), high: z.number() }),
});

const RunResult = z.strictObject({
  run: RunName,
  seed: z.int(),
  steps: z.int(),
  sampledTokens: z.int(),
  /** Whether the run reached its maximum number of steps before its token budget (what the first arm sampled, or `--tokens`). */
  short: z.boolean(),
  seconds: z.number(),
  evaluations: z.array(z.strictObject({ suite: z.string(), temperature: z.number(), before: Share, after: Share })),
});

const ArmResult = z.strictObject({
  label: z.string(),
  arm: Arm,
  varied: z.string().nullable(),
  runs: z.array(RunResult),
  /** Questions answered correctly, per open-book suite. */
  heldOut: z.array(Measured),
  caseStudies: z.array(Measured.extend({ study: z.string(), expected: z.string() })),
  /** Questions answered correctly, per kind of question, on the first suite of `heldOut`. */
  kinds: z.array(Measured.extend({ kind: z.string() })),
});
export type ArmResult = z.infer<typeof ArmResult>;

export const Comparison = z.strictObject({
  name: z.string(),
  recipe: z.string(),
  command: z.string(),
  /** What every arm starts from. */
  start: z.string(),
  /** What is trained on: a file, or the recipe's questions. */
  questions: z.string(),
  /** All distinct source versions of the runs. */
  commits: z.array(z.string()),
  /** Accepted runs from another commit, release, recipe, question set, config or base model, and how they differ from this comparison. */
  foreign: z.array(z.strictObject({ run: RunName, commit: z.string(), differences: z.array(z.string()) })),
  /** All distinct machines of the runs. */
  machines: z.array(z.string()),
  /** Sum over all runs. */
  hours: z.number(),
  seeds: z.array(z.int()),
  arms: z.array(ArmResult),
  /** Unfinished runs, which this summary leaves out. */
  missing: z.array(RunName),
});
export type Comparison = z.infer<typeof Comparison>;

/** An arm's finished runs, in order of their seeds. */
export interface ArmRuns {
  readonly entry: Entry;
  readonly runs: readonly FinishedRun[];
  /** Token budgets by run; none for runs that train for a fixed number of steps. */
  readonly budgets: ReadonlyMap<string, number>;
}

export function summarize(
  about: Pick<Comparison, "name" | "recipe" | "command" | "start" | "questions" | "seeds" | "missing">,
  arms: readonly ArmRuns[],
): Comparison {
  const [first] = arms;
  const all = arms.flatMap(({ runs }) => runs);
  refuseOtherQuestions(all.map(evaluated));
  const comparison: Comparison = {
    ...about,
    commits: [...new Set(all.map(({ by }) => by.commit))],
    foreign: all.flatMap(({ report: { run }, by: { commit }, mismatches }) =>
      mismatches.length === 0 ? [] : [{ run, commit, differences: [...mismatches] }],
    ),
    machines: [...new Set(all.map(({ by }) => by.machine))],
    hours: all.reduce((sum, { report }) => sum + report.seconds.total, 0) / 3600,
    arms: arms.map((one) => summarizeArm(one, one === first ? undefined : first)),
  };
  return parse(Comparison, comparison, `summary of comparison '${about.name}'`);
}

/** The part of a finished run that is compared. */
export const evaluated = ({ report: { run, seed, steps }, heldOut }: TrainedRun): EvaluatedRun => ({
  run,
  seed,
  steps,
  heldOut,
});

function summarizeArm({ entry, runs, budgets }: ArmRuns, first: ArmRuns | undefined): ArmResult {
  const { label, arm, varied } = entry;
  const compared = { label, runs: runs.map(evaluated), first: first?.runs.map(evaluated) };
  const suites = comparedSuites(compared.runs);
  const measured = (suite: Suite, what: string, pick: TallyOf) => measureArm(compared, suite, what, pick);
  const studies = runs[0]?.report.caseStudies ?? [];
  const [shown] = suites;
  const kinds = [...new Set(scoresOf(compared.runs[0], shown?.suite, "after").map(({ kind }) => kind))];
  return {
    label,
    arm,
    varied: varied ?? null,
    runs: runs.map((one) => runResult(one, budgets)),
    heldOut: suites.map((suite) => measured(suite, "held-out", (question) => question)),
    caseStudies: suites.flatMap((suite) =>
      studies
        .filter((one) => one.suite === suite.suite)
        .map(({ study, expected }) => ({
          study,
          expected,
          ...measured(suite, study, ({ studies: counts }) => counts[study] ?? EMPTY_TALLY),
        })),
    ),
    kinds: shown
      ? kinds.map((kind) => ({
          kind,
          ...measured(shown, kind, (question) => (question.kind === kind ? question : EMPTY_TALLY)),
        }))
      : [],
  };
}

/** Tokens sampled before each step, and, last, by the whole run. */
export function cumulativeTokens({ report }: FinishedRun): number[] {
  const totals = [0];
  for (const { sampledTokens } of report.perStep) totals.push((totals.at(-1) ?? 0) + sampledTokens);
  return totals;
}

function runResult(run: FinishedRun, budgets: ReadonlyMap<string, number>): z.infer<typeof RunResult> {
  const { report } = run;
  const sampledTokens = cumulativeTokens(run).at(-1) ?? 0;
  const own = evaluated(run);
  const share = (suite: string, end: End) => {
    const questions = scoresOf(own, suite, end);
    return { ...sumTallies(questions), interval: accuracyInterval(questions) };
  };
  return {
    run: report.run,
    seed: report.seed,
    steps: report.steps,
    seconds: report.seconds.total,
    sampledTokens,
    short: sampledTokens < (budgets.get(report.run) ?? 0),
    evaluations: comparedSuites([own]).map(({ suite, temperature }) => ({
      suite,
      temperature,
      before: share(suite, "before"),
      after: share(suite, "after"),
    })),
  };
}
