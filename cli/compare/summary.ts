/**
 * @file The results of a comparison: every arm before and after training, and against the first arm, with 95 % intervals over seeds
 * and questions (core/training/bootstrap.ts); every run with Wilson intervals. Pure. The schema is that of results/<name>/summary.json.
 */
import * as z from "zod";
import { Arm } from "../../core/contracts/config.ts";
import { RunName } from "../../core/contracts/names.ts";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { differenceEstimate, shareEstimate, type Tallies_SQ } from "../../core/training/bootstrap.ts";
import { accuracyInterval, sumTallies, type Tally } from "../../core/training/confidence-interval.ts";
import type { HeldOutScores } from "../held-out/scores.ts";
import type { Entry } from "./plan.ts";
import type { FinishedRun } from "./records.ts";

const Estimate = z.strictObject({ value: z.number(), low: z.number(), high: z.number() });
const Share = z.strictObject({
  n: z.int(),
  correct: z.number(),
  interval: z.strictObject({ low: z.number(), high: z.number() }),
});

/** What was measured on one suite. An estimate is null if nothing was counted. */
const Measured = z.strictObject({
  suite: z.string(),
  temperature: z.number(),
  before: Estimate.nullable(),
  after: Estimate.nullable(),
  /** After minus before. */
  gain: Estimate.nullable(),
  /** After, minus the first arm's after, over the seeds that both have. Null for the first arm. */
  againstFirst: Estimate.nullable(),
});
export type Measured = z.infer<typeof Measured>;

const RunResult = z.strictObject({
  run: RunName,
  seed: z.int(),
  steps: z.int(),
  sampledTokens: z.int(),
  /** The run reached its maximum number of steps before its token budget: what the first arm sampled, or `--tokens`. */
  short: z.boolean(),
  seconds: z.number(),
  evaluations: z.array(z.strictObject({ suite: z.string(), temperature: z.number(), before: Share, after: Share })),
});

const ArmResult = z.strictObject({
  label: z.string(),
  arm: Arm,
  varied: z.string().nullable(),
  runs: z.array(RunResult),
  /** Held-out questions answered correctly, per open-book suite. */
  heldOut: z.array(Measured),
  caseStudies: z.array(Measured.extend({ study: z.string(), expected: z.string() })),
  /** Held-out questions answered correctly, per kind of question, on the first suite of `heldOut`. */
  kinds: z.array(Measured.extend({ kind: z.string() })),
});
export type ArmResult = z.infer<typeof ArmResult>;

export const Comparison = z.strictObject({
  name: z.string(),
  recipe: z.string(),
  command: z.string(),
  /** What each arm starts from. */
  start: z.string(),
  /** What is trained on: a file, or the recipe's questions. */
  questions: z.string(),
  /** All distinct source versions of the runs. */
  commits: z.array(z.string()),
  /** Accepted runs that another commit, release, config or base model made, and how they differ from this comparison. */
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

/** An arm's finished runs, by seed. */
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
  refuseOtherQuestions(all);
  const comparison: Comparison = {
    ...about,
    commits: [...new Set(all.map(({ by }) => by.commit))],
    foreign: all.flatMap(({ report: { run }, by: { commit }, foreign }) =>
      foreign.length === 0 ? [] : [{ run, commit, differences: [...foreign] }],
    ),
    machines: [...new Set(all.map(({ by }) => by.machine))],
    hours: all.reduce((sum, { report }) => sum + report.seconds.total, 0) / 3600,
    arms: arms.map((one) => summarizeArm(one, one === first ? undefined : first)),
  };
  return parse(Comparison, comparison, `summary of comparison '${about.name}'`);
}

/** Scores are paired by question, so all runs must have been evaluated on the same questions. */
function refuseOtherQuestions([first, ...others]: readonly FinishedRun[]): void {
  if (!first) return;
  const questionsOf = ({ heldOut }: FinishedRun) =>
    new Map(heldOut.map(({ suite, questions }) => [suite, questions.map(({ question }) => question).join("\n")]));
  const expected = questionsOf(first);
  for (const other of others) {
    const [suite] = [...questionsOf(other)].find(([name, questions]) => expected.get(name) !== questions) ?? [];
    if (suite === undefined) continue;
    const runs = `runs '${first.report.run}' and '${other.report.run}'`;
    throw new MgrpoError(
      "config-invalid",
      `suite ${suite}: ${runs} were asked different questions, and cannot be compared: held-out questions must not depend on the seed`,
    );
  }
}

function summarizeArm({ entry, runs, budgets }: ArmRuns, first: ArmRuns | undefined): ArmResult {
  const { label, arm, varied } = entry;
  const suites = comparedSuites(runs);
  const measured = (suite: Suite, what: string, pick: Counts) =>
    measureArm(label, suite, what, runs, first?.runs, pick);
  const studies = runs[0]?.report.caseStudies ?? [];
  const [shown] = suites;
  const kinds = [...new Set(scoresOf(runs[0], shown?.suite, "after").map(({ kind }) => kind))];
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
          ...measured(suite, study, ({ studies: counts }) => counts[study] ?? NOTHING),
        })),
    ),
    kinds: shown
      ? kinds.map((kind) => ({
          kind,
          ...measured(shown, kind, (question) => (question.kind === kind ? question : NOTHING)),
        }))
      : [],
  };
}

type QuestionScore = HeldOutScores["questions"][number];
type Counts = (question: QuestionScore) => Tally;
type Suite = { readonly suite: string; readonly temperature: number };
type End = "before" | "after";

const NOTHING: Tally = { n: 0, correct: 0 };

/** The random stream of a bootstrap is named after the arm, the suite, what is measured and the estimate. */
function measureArm(
  label: string,
  { suite, temperature }: Suite,
  what: string,
  runs: readonly FinishedRun[],
  first: readonly FinishedRun[] | undefined,
  pick: Counts,
): Measured {
  const table = (of: readonly FinishedRun[], end: End): Tallies_SQ =>
    of.map((one) => scoresOf(one, suite, end).map((question) => pick(question)));
  const name = ["compare", label, suite, what];
  const pairs = runs.flatMap((run) => {
    const baseline = first?.find(({ report }) => report.seed === run.report.seed);
    return baseline ? [{ run, baseline }] : [];
  });
  const [paired, baselines] = [pairs.map(({ run }) => run), pairs.map(({ baseline }) => baseline)];
  return {
    suite,
    temperature,
    before: shareEstimate(table(runs, "before"), [...name, "before"]) ?? null,
    after: shareEstimate(table(runs, "after"), [...name, "after"]) ?? null,
    gain: differenceEstimate(table(runs, "after"), table(runs, "before"), [...name, "gain"]) ?? null,
    againstFirst: differenceEstimate(table(paired, "after"), table(baselines, "after"), [...name, "first"]) ?? null,
  };
}

/** Scores of the untrained team or of the last one. Empty if it was not evaluated on the suite. */
function scoresOf(run: FinishedRun | undefined, suite: string | undefined, end: End): readonly QuestionScore[] {
  const team = end === "before" ? 0 : run?.report.steps;
  return run?.heldOut.find((one) => one.suite === suite && one.team === team)?.questions ?? [];
}

/** Open-book suites evaluated before and after training in the first run, those above temperature 0 first. */
export function comparedSuites(runs: readonly FinishedRun[]): Suite[] {
  const [run] = runs;
  const at = (team: number | undefined) => run?.heldOut.filter((one) => one.team === team && !one.closedBook) ?? [];
  const after = at(run?.report.steps);
  return at(0)
    .filter(({ suite }) => after.some((one) => one.suite === suite))
    .map(({ suite, temperature }) => ({ suite, temperature }))
    .sort((a, b) => Number(a.temperature === 0) - Number(b.temperature === 0));
}

/** Tokens sampled before each step, and after the last. */
export function cumulativeTokens({ report }: FinishedRun): number[] {
  const totals = [0];
  for (const { sampledTokens } of report.perStep) totals.push((totals.at(-1) ?? 0) + sampledTokens);
  return totals;
}

function runResult(run: FinishedRun, budgets: ReadonlyMap<string, number>): z.infer<typeof RunResult> {
  const { report } = run;
  const sampledTokens = cumulativeTokens(run).at(-1) ?? 0;
  const share = (suite: string, end: End) => {
    const questions = scoresOf(run, suite, end);
    return { ...sumTallies(questions), interval: accuracyInterval(questions) };
  };
  return {
    run: report.run,
    seed: report.seed,
    steps: report.steps,
    seconds: report.seconds.total,
    sampledTokens,
    short: sampledTokens < (budgets.get(report.run) ?? 0),
    evaluations: comparedSuites([run]).map(({ suite, temperature }) => ({
      suite,
      temperature,
      before: share(suite, "before"),
      after: share(suite, "after"),
    })),
  };
}
