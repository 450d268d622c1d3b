/**
 * @file The scores of an arm on a suite: before and after training, the gain, and the difference from the first arm, with 95% intervals. Also the
 * suites that can be compared, and the check that all runs were asked the same questions. Pure.
 */
import type { QuestionSet } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import { differenceEstimate, shareEstimate, type Tallies_SQ } from "../../core/training/bootstrap.ts";
import type { Tally } from "../../core/training/confidence-interval.ts";
import type { Measured } from "../../ui/compare-view.ts";
import { type HeldOutScores, pairedScores, type QuestionScore, type Scores_SQ } from "../held-out-scores.ts";

/** A run of one seed, with the scores of its evaluated teams. `steps`: training steps of the last team. */
export interface EvaluatedRun {
  readonly run: string;
  readonly seed: number;
  readonly steps: number;
  readonly heldOut: readonly HeldOutScores[];
}

/** Selects from a question's score the tally that is measured. */
export type TallyOf = (question: QuestionScore) => Tally;
export type Suite = Pick<Measured, "suite" | "temperature">;
export type End = "before" | "after";

export const EMPTY_TALLY: Tally = { n: 0, correct: 0 };

/** `first`: the runs of the first arm; absent for the first arm itself. */
export interface EvaluatedArm {
  readonly label: string;
  readonly runs: readonly EvaluatedRun[];
  readonly first?: readonly EvaluatedRun[] | undefined;
}

/**
 * The arm's scores on one suite: before, after, the gain, and the difference from the first arm. A question counts in one of the two differences
 * only if both sides have a counted rollout on this question. So a difference need not be exactly that of the two shares shown beside it. The random stream
 * of each bootstrap is named after the arm, the suite, what is measured and the estimate.
 */
export function measureArm(
  { label, runs, first }: EvaluatedArm,
  { suite, temperature }: Suite,
  what: string,
  pick: TallyOf,
): Measured {
  const name = ["compare", label, suite, what];
  const scores = (of: readonly EvaluatedRun[], end: End): Scores_SQ => of.map((one) => scoresOf(one, suite, end));
  const tallies = (scores_SQ: Scores_SQ): Tallies_SQ => scores_SQ.map((row) => row.map((question) => pick(question)));
  const share = (of: readonly EvaluatedRun[], end: End) =>
    shareEstimate(tallies(scores(of, end)), [...name, end]) ?? null;
  const difference = (a_SQ: Scores_SQ, b_SQ: Scores_SQ, estimated: string) => {
    const [one, other] = pairedScores(a_SQ, b_SQ);
    return differenceEstimate(tallies(one), tallies(other), [...name, estimated]) ?? null;
  };
  // A run still in training may lack scores: each estimate covers only the runs that have all it needs.
  const isScored = (run: EvaluatedRun, end: End) => scoresOf(run, suite, end).length > 0;
  const [before, after] = [runs.filter((run) => isScored(run, "before")), runs.filter((run) => isScored(run, "after"))];
  const both = before.filter((run) => isScored(run, "after"));
  const pairs = after.flatMap((run) => {
    const baseline = first?.find((one) => one.seed === run.seed && isScored(one, "after"));
    return baseline ? [{ run, baseline }] : [];
  });
  const [paired, baselines] = [pairs.map(({ run }) => run), pairs.map(({ baseline }) => baseline)];
  return {
    suite,
    temperature,
    before: share(before, "before"),
    after: share(after, "after"),
    gain: difference(scores(both, "after"), scores(both, "before"), "gain"),
    againstFirst: difference(scores(paired, "after"), scores(baselines, "after"), "first"),
  };
}

/** Scores of the untrained team or of the last one. Empty if that team was not evaluated on the suite. */
export function scoresOf(run: EvaluatedRun | undefined, suite: string | undefined, end: End): readonly QuestionScore[] {
  const team = end === "before" ? 0 : run?.steps;
  // The untrained team is not the last one, even while no other is evaluated.
  if (end === "after" && team === 0) return [];
  return run?.heldOut.find((one) => one.suite === suite && one.team === team)?.questions ?? [];
}

/**
 * Open-book suites evaluated before and after training in any of the runs, those above temperature 0 first. If a run has evaluated only its
 * untrained team so far, that team's suites are included.
 */
export function comparedSuites(runs: readonly EvaluatedRun[]): Suite[] {
  const suites = new Map(runs.flatMap(suitesOf).map((one) => [one.suite, one]));
  return [...suites.values()].sort((a, b) => Number(a.temperature === 0) - Number(b.temperature === 0));
}

function suitesOf({ heldOut, steps }: EvaluatedRun): Suite[] {
  const at = (team: number) => heldOut.filter((one) => one.team === team && !one.closedBook);
  const after = at(steps);
  return at(0)
    .filter(({ suite }) => after.some((one) => one.suite === suite))
    .map(({ suite, temperature }) => ({ suite, temperature }));
}

/**
 * Suites on which runs were asked different questions -> why their scores cannot be compared: scores are paired by question. A run without
 * scores on a suite does not differ: a run that is still training has not been evaluated on the suites that come at its end.
 */
export function differingSuites(runs: readonly EvaluatedRun[]): Map<string, string> {
  const first = new Map<string, { readonly run: string; readonly ids: string }>();
  const differing = new Map<string, string>();
  for (const { run, heldOut } of runs) {
    for (const { suite, questions } of heldOut) {
      const ids = questions.map(({ question }) => question).join("\n");
      const known = first.get(suite) ?? { run, ids };
      first.set(suite, known);
      if (known.ids === ids || differing.has(suite)) continue;
      const fault = `runs '${known.run}' and '${run}' were asked different questions`;
      const advice = "they must not depend on the seed or, for a benchmark, on tools and on `questions`";
      differing.set(suite, `suite ${suite}: ${fault}: give both the same questions: ${advice}`);
    }
  }
  return differing;
}

export function refuseOtherQuestions(runs: readonly EvaluatedRun[]): void {
  for (const reason of differingSuites(runs).values()) throw new MgrpoError("config-invalid", reason);
}

/**
 * The same check before training: throws if a run's questions of a suite differ from those in `asked` (suite -> ids), to which it adds the run's
 * other suites. The questions of GAIA depend on the agents' tools.
 */
export function refuseOtherSuites({ suites = {} }: Pick<QuestionSet, "suites">, asked: Map<string, string>): void {
  for (const [suite, { questions }] of Object.entries(suites)) {
    const ids = questions.map(({ id }) => id).join("\n");
    if ((asked.get(suite) ?? ids) !== ids)
      throw new MgrpoError(
        "config-invalid",
        `suite '${suite}': its questions depend on the arm's tools (docs/benchmarks.md), so its scores cannot be compared: give all arms the tools, or leave the suite out`,
      );
    asked.set(suite, ids);
  }
}
