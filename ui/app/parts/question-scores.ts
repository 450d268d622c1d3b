/** @file The scores of a suite's questions over a run's evaluations, in the order of the question set. */
import type { EvaluationView } from "../../views.ts";

export interface QuestionScores {
  readonly id: string;
  readonly kind: string;
  /** The share of correct answers in each evaluation; null: no rollout of the question has a score in that evaluation. */
  readonly shares: readonly (number | null)[];
  /** The last share minus the first; 0 if either is null. */
  readonly gain: number;
}

/** Sums of the same partial scores in another order differ by no more. */
const ROUNDING = 1e-9;

/** `evaluations`: of one suite, in order of team. */
export function questionScores(evaluations: readonly EvaluationView[]): QuestionScores[] {
  const byEvaluation = evaluations.map(({ questions }) => new Map(questions.map((one) => [one.question, one])));
  return (evaluations[0]?.questions ?? []).map(({ question: id, kind }) => {
    const shares = byEvaluation.map((scores) => {
      const one = scores.get(id);
      return one && one.n > 0 ? one.correct / one.n : null;
    });
    const [first, last] = [shares[0] ?? null, shares.at(-1) ?? null];
    const gain = first === null || last === null ? 0 : last - first;
    return { id, kind, shares, gain: Math.abs(gain) < ROUNDING ? 0 : gain };
  });
}
