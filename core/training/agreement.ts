/**
 * @file How far a judge agrees with human labels. For answers that are correct or wrong: accuracy, Cohen's kappa and the confusion matrix. For
 * work that gets a score: mean absolute error, mean error, the share of close scores, and Pearson's correlation.
 */
import { mean } from "../statistics.ts";
import { type ConfidenceInterval, NORMAL_975, wilson } from "./confidence-interval.ts";

/** Whether one answer is correct, according to its label and to the judge. */
export interface LabeledAnswer {
  readonly label: boolean;
  readonly judged: boolean;
}

export interface Agreement {
  readonly n: number;
  /** Share of answers with the same label and verdict, with its 95% interval. */
  readonly accuracy: number;
  readonly interval: ConfidenceInterval;
  /**
   * Cohen 1960, "A coefficient of agreement for nominal scales": (p_o - p_e) / (1 - p_e), where p_e is the agreement expected by chance
   * from the two shares of correct answers. Null if p_e is 1: both give every answer the same label.
   */
  readonly kappa: number | null;
  /** By label, then by verdict. */
  readonly confusion: {
    readonly correct: { readonly correct: number; readonly wrong: number };
    readonly wrong: { readonly correct: number; readonly wrong: number };
  };
}

/** Needs at least one answer. */
export function agreementOf(answers: readonly LabeledAnswer[]): Agreement {
  const count = (label: boolean, judged: boolean) =>
    answers.filter((one) => one.label === label && one.judged === judged).length;
  const correct = { correct: count(true, true), wrong: count(true, false) };
  const wrong = { correct: count(false, true), wrong: count(false, false) };
  const n = answers.length;
  const same = correct.correct + wrong.wrong;
  const labeledCorrect = (correct.correct + correct.wrong) / n;
  const judgedCorrect = (correct.correct + wrong.correct) / n;
  const expected = labeledCorrect * judgedCorrect + (1 - labeledCorrect) * (1 - judgedCorrect);
  return {
    n,
    accuracy: same / n,
    interval: wilson({ n, correct: same }),
    kappa: expected === 1 ? null : (same / n - expected) / (1 - expected),
    confusion: { correct, wrong },
  };
}

/** The scores of one piece of work from its label and from the judge, both in [0, 1]. */
export interface ScorePair {
  readonly label: number;
  readonly judged: number;
}

/** Two scores are close if they differ by no more than this. */
export const CLOSE_WITHIN = 0.1;
const ROUNDING = 1e-9;

/** `ROUNDING` makes 0.8 and 0.7 close, whose difference as floats is above 0.1. */
export const areClose = ({ label, judged }: ScorePair): boolean => Math.abs(judged - label) <= CLOSE_WITHIN + ROUNDING;

export interface ScoreAgreement {
  readonly n: number;
  readonly meanAbsoluteError: number;
  /** Judge minus label: above 0 the judge is too lenient. */
  readonly meanError: number;
  /** Share of pairs that are close, with its 95% interval. */
  readonly close: number;
  readonly closeInterval: ConfidenceInterval;
  /**
   * Pearson's r. This is what matters in training: rewards are compared within a group, so a uniformly lenient judge changes nothing.
   * Null if all labels, or all verdicts, are the same.
   */
  readonly correlation: number | null;
  /** 95%, by Fisher's transformation (1921). Null for fewer than four scores, and if r is null or, up to rounding, 1 or -1. */
  readonly correlationInterval: ConfidenceInterval | null;
}

/** Needs at least one pair. */
export function scoreAgreementOf(scores: readonly ScorePair[]): ScoreAgreement {
  const n = scores.length;
  const errors = scores.map(({ label, judged }) => judged - label);
  const close = scores.filter(areClose).length;
  const correlation = pearson(
    scores.map(({ label }) => label),
    scores.map(({ judged }) => judged),
  );
  return {
    n,
    meanAbsoluteError: mean(errors.map(Math.abs)),
    meanError: mean(errors),
    close: close / n,
    closeInterval: wilson({ n, correct: close }),
    correlation,
    correlationInterval: correlationInterval(correlation, n),
  };
}

function pearson(x: readonly number[], y: readonly number[]): number | null {
  const [dx, dy] = [deviations(x), deviations(y)];
  const scale = Math.sqrt(meanProduct(dx, dx) * meanProduct(dy, dy));
  return scale < ROUNDING ? null : Math.max(-1, Math.min(1, meanProduct(dx, dy) / scale));
}

function correlationInterval(correlation: number | null, n: number): ConfidenceInterval | null {
  if (correlation === null || 1 - Math.abs(correlation) < ROUNDING || n < 4) return null;
  const [center, half] = [Math.atanh(correlation), NORMAL_975 / Math.sqrt(n - 3)];
  return { low: Math.tanh(center - half), high: Math.tanh(center + half) };
}

function deviations(values: readonly number[]): number[] {
  const center = mean(values);
  return values.map((value) => value - center);
}

function meanProduct(a: readonly number[], b: readonly number[]): number {
  return mean(a.map((value, i) => value * (b[i] ?? 0)));
}
