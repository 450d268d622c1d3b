/** @file The finished evaluations of a run's teams: their settings with their scores, and a team's held-out score. */
import * as z from "zod";
import type { RunConfig } from "../contracts/config.ts";
import { Benchmark, type EvaluationSuite } from "../contracts/evaluation-suite.ts";
import { Step } from "../contracts/names.ts";
import { EvaluationScore } from "../contracts/records.ts";

/** One finished evaluation of one team. */
export const TeamEvaluation = EvaluationScore.extend({
  team: Step,
  suite: z.string(),
  temperature: z.number(),
  closedBook: z.boolean(),
  /** Absent: the run's held-out questions. */
  benchmark: Benchmark.exactOptional(),
});
export type TeamEvaluation = z.infer<typeof TeamEvaluation>;

const Score = z.strictObject({ n: z.int(), correct: z.number() });
export const HeldOut = Score.extend({ greedy: Score.nullable() });

/** The position of a suite in the config, in whose order suites are shown. -1 if the config does not have it. */
export const suitePosition = ({ evaluation }: Pick<RunConfig, "evaluation">, suite: string): number =>
  evaluation.suites.findIndex(({ name }) => name === suite);

/** Sorted by team, then in the config's order of suites. `openBookEvaluations` takes a team's first suites in this order. */
export function sortEvaluations<T extends { readonly team: number; readonly suite: string }>(
  config: Pick<RunConfig, "evaluation">,
  evaluations: readonly T[],
): T[] {
  const position = ({ suite }: T) => suitePosition(config, suite);
  return [...evaluations].sort((a, b) => a.team - b.team || position(a) - position(b));
}

/**
 * The suite whose score is shown beside each step: open-book, on the held-out questions, above temperature 0, and one that runs during
 * training if there is one. Undefined: the config has no suite of this kind.
 */
export function trackedSuite({ evaluation }: Pick<RunConfig, "evaluation">): string | undefined {
  const open = evaluation.suites.filter((one) => one.temperature > 0 && !one.closedBook && one.benchmark === undefined);
  return (open.find(({ when }) => when === "every") ?? open[0])?.name;
}

/** A team's open-book evaluations on the held-out questions: of its first suite above temperature 0, and of its first greedy one. */
export function openBookEvaluations(evaluations: readonly TeamEvaluation[], team: number) {
  const open = evaluations.filter((one) => one.team === team && !one.closedBook && one.benchmark === undefined);
  return { sampled: open.find((one) => one.temperature > 0), greedy: open.find((one) => one.temperature === 0) };
}

/** A team's open-book scores on the held-out questions, over all runs of a suite; null if it was not evaluated above temperature 0. */
export function heldOutScore(evaluations: readonly TeamEvaluation[], team: number): z.infer<typeof HeldOut> | null {
  const { sampled, greedy } = openBookEvaluations(evaluations, team);
  return sampled ? { ...score(sampled), greedy: greedy ? score(greedy) : null } : null;
}

/** The share of held-out questions that a team answers correctly; null if it was not evaluated above temperature 0, or on no question. */
export function heldOutShare(evaluations: readonly TeamEvaluation[], team: number): number | null {
  const found = heldOutScore(evaluations, team);
  return found && found.n > 0 ? found.correct / found.n : null;
}

/** A job's score with its suite's settings. */
export function evaluationOf(
  { name, temperature, closedBook, benchmark }: EvaluationSuite,
  { team, n, correct, runs, interval }: EvaluationScore & { readonly team: number },
): TeamEvaluation {
  const settings = { suite: name, temperature, closedBook, ...(benchmark && { benchmark }) };
  return { team, ...settings, n, correct, runs: [...runs], interval };
}

function score({ n, correct }: TeamEvaluation): z.infer<typeof Score> {
  return { n, correct };
}
