/**
 * @file Scores of each evaluated team on each question of its suites, and the recipe's case studies, measured on the rollouts of the untrained
 * and the trained team. Pure. `held-out.json` in a run's folder is a list of HeldOutScores.
 */
import * as z from "zod";
import type { Conversation } from "../core/contracts/conversation.ts";
import { Step } from "../core/contracts/names.ts";
import type { Question } from "../core/contracts/question.ts";
import type { Invocation } from "../core/contracts/rollout.ts";
import type { CaseStudy } from "../core/recipe.ts";
import { accuracyInterval, sumTallies, type Tally } from "../core/training/confidence-interval.ts";

export const StoredTally = z.strictObject({ n: z.int().nonnegative(), correct: z.number().nonnegative() });

export const QuestionScore = StoredTally.extend({
  question: z.string(),
  kind: z.string(),
  /** Case study -> `n`: its checks over the question's rollouts; `correct`: how many of them the team passed. */
  studies: z.record(z.string(), StoredTally),
});
export type QuestionScore = z.infer<typeof QuestionScore>;

/** One evaluation. Case studies are measured only in open-book evaluations of the untrained and the last team on held-out questions. */
export const HeldOutScores = z.strictObject({
  team: Step,
  suite: z.string(),
  temperature: z.number(),
  closedBook: z.boolean(),
  questions: z.array(QuestionScore),
});
export type HeldOutScores = z.infer<typeof HeldOutScores>;

/** [seed][question]. */
export type Scores_SQ = readonly (readonly QuestionScore[])[];

/**
 * The scores of two teams whose difference is estimated, in the same order of seeds and questions. A question for which one team has
 * no counted rollout counts for neither: a team whose rollouts of hard questions were lost would otherwise seem better.
 */
export function pairedScores(a_SQ: Scores_SQ, b_SQ: Scores_SQ): [Scores_SQ, Scores_SQ] {
  const isCounted = (score: QuestionScore | undefined) => score !== undefined && score.n > 0;
  const without = (scores_SQ: Scores_SQ, other_SQ: Scores_SQ) =>
    scores_SQ.map((row, s) =>
      row.map((score, q) => (isCounted(other_SQ[s]?.[q]) && score.n > 0 ? score : { ...score, ...UNCOUNTED })),
    );
  return [without(a_SQ, b_SQ), without(b_SQ, a_SQ)];
}

const UNCOUNTED = { n: 0, correct: 0, studies: {} };

const StudyScore = StoredTally.extend({ interval: z.strictObject({ low: z.number(), high: z.number() }) });

/** A case study before and after training, on one suite. The intervals treat its questions as a sample. */
export const CaseStudyResult = z.strictObject({
  study: z.string(),
  /** The behavior that counts as correct. */
  expected: z.string(),
  suite: z.string(),
  temperature: z.number(),
  before: StudyScore,
  after: StudyScore,
});
export type CaseStudyResult = z.infer<typeof CaseStudyResult>;

/** One rollout of an evaluation. */
export interface HeldOutRollout {
  readonly question: Question;
  readonly conversation: Conversation;
  /** By id, in the order of the outcome. */
  readonly invocations: ReadonlyMap<string, Invocation>;
}

/** How many checks the study makes in these rollouts, and how many pass. */
export function scoreStudy(study: CaseStudy, rollouts: readonly HeldOutRollout[]): Tally {
  const checks = rollouts.flatMap(({ question, conversation, invocations }) =>
    study.checks(question, { conversation, invocations: [...invocations.values()] }),
  );
  return { n: checks.length, correct: checks.filter((isCorrect) => isCorrect).length };
}

/** Each case study on each open-book suite evaluated before and after training. `last`: the run's last team. */
export function caseStudyResults(
  scores: readonly HeldOutScores[],
  last: number,
  caseStudies: readonly CaseStudy[],
): CaseStudyResult[] {
  const openBookScores = (team: number) => scores.filter((one) => one.team === team && !one.closedBook);
  const scoreOf = ({ questions }: HeldOutScores, study: string) => {
    const perQuestion = questions.flatMap(({ studies }) => studies[study] ?? []);
    return { ...sumTallies(perQuestion), interval: accuracyInterval(perQuestion) };
  };
  const isMeasured = ({ questions }: HeldOutScores, study: string) => questions.some(({ studies }) => studies[study]);
  return caseStudies.flatMap(({ name: study, expected }) =>
    openBookScores(0).flatMap((before) => {
      if (!isMeasured(before, study)) return [];
      const after = openBookScores(last).find(({ suite }) => suite === before.suite);
      const { suite, temperature } = before;
      return after
        ? [{ study, expected, suite, temperature, before: scoreOf(before, study), after: scoreOf(after, study) }]
        : [];
    }),
  );
}
