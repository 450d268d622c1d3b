/** @file The scores of a suite's questions over a run's evaluations, in the order of the question set. */
import type { EvaluationView } from "../../views.ts";

export interface QuestionScores {
  readonly id: string;
  readonly kind: string;
  /** One share per team; null: no attempt has a score. */
  readonly shares: readonly (number | null)[];
  /** The last team's share less the first team's; 0 if either is null. */
  readonly gain: number;
}

/** `teams`: evaluations of one suite, the first team first. */
export function questionScores(teams: readonly EvaluationView[]): QuestionScores[] {
  const byTeam = teams.map(({ questions }) => new Map(questions.map((one) => [one.question, one])));
  return (teams[0]?.questions ?? []).map(({ question: id, kind }) => {
    const shares = byTeam.map((scores) => {
      const one = scores.get(id);
      return one && one.n > 0 ? one.correct / one.n : null;
    });
    const [first, last] = [shares[0] ?? null, shares.at(-1) ?? null];
    return { id, kind, shares, gain: first === null || last === null ? 0 : last - first };
  });
}
