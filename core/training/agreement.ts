/**
 * @file How far a judge agrees with people who labelled the same: of answers that are right or wrong, accuracy, Cohen's kappa and
 * confusion; of work that gets a score, mean absolute error, mean error, the share that is close, and Pearson's correlation.
 */
import { type Interval, wilson } from "./interval.ts";

/** One answer: right or wrong, as it was labelled and as it was judged. */
export interface Labelled {
  readonly label: boolean;
  readonly judged: boolean;
}

export interface Agreement {
  readonly n: number;
  /** Share of answers on which both say the same, with its 95 % interval. */
  readonly accuracy: number;
  readonly interval: Interval;
  /**
   * Cohen 1960, "A coefficient of agreement for nominal scales": (p_o - p_e) / (1 - p_e), with p_e the agreement of two who only keep to
   * their own shares. Null where that is 1: both said the same of everything.
   */
  readonly kappa: number | null;
  /** Label, then verdict. */
  readonly confusion: {
    readonly right: { readonly right: number; readonly wrong: number };
    readonly wrong: { readonly right: number; readonly wrong: number };
  };
}

/** Of at least one answer. */
export function agreementOf(answers: readonly Labelled[]): Agreement {
  const count = (label: boolean, judged: boolean) =>
    answers.filter((one) => one.label === label && one.judged === judged).length;
  const right = { right: count(true, true), wrong: count(true, false) };
  const wrong = { right: count(false, true), wrong: count(false, false) };
  const n = answers.length;
  const same = right.right + wrong.wrong;
  const labelledRight = (right.right + right.wrong) / n;
  const judgedRight = (right.right + wrong.right) / n;
  const expected = labelledRight * judgedRight + (1 - labelledRight) * (1 - judgedRight);
  return {
    n,
    accuracy: same / n,
    interval: wilson({ n, correct: same }),
    kappa: expected === 1 ? null : (same / n - expected) / (1 - expected),
    confusion: { right, wrong },
  };
}

/** One piece of work: its score as it was labelled and as it was judged, both in [0, 1]. */
export interface ScoredTwice {
  readonly label: number;
  readonly judged: number;
}

/** Scores that lie no further apart are close. */
export const CLOSE = 0.1;
const ROUNDING = 1e-9;

/** 0.8 and 0.7 are, whatever floating point says. */
export const areClose = ({ label, judged }: ScoredTwice): boolean => Math.abs(judged - label) <= CLOSE + ROUNDING;

/** The 97.5 % quantile of the normal distribution. */
const Z = 1.96;

export interface ScoreAgreement {
  readonly n: number;
  /** Of judge and label. */
  readonly meanAbsoluteError: number;
  /** Judge minus label: above 0 the judge is too kind. */
  readonly meanError: number;
  /** Share of scores within `CLOSE`, with its 95 % interval. */
  readonly close: number;
  readonly closeInterval: Interval;
  /**
   * Pearson's r: what counts in training, where rewards are compared within a group and a judge that is kinder to all changes nothing. Null
   * where one of the two gives everything the same score.
   */
  readonly correlation: number | null;
  /** 95 %, by Fisher's transformation (1921); null of fewer than four, and where r is null or 1 or -1. */
  readonly correlationInterval: Interval | null;
}

/** Of at least one piece of work. */
export function scoreAgreementOf(scores: readonly ScoredTwice[]): ScoreAgreement {
  const n = scores.length;
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / n;
  const errors = scores.map(({ label, judged }) => judged - label);
  const near = scores.filter(areClose).length;
  const [labelled, judged] = [scores.map((one) => one.label), scores.map((one) => one.judged)];
  const deviations = (values: readonly number[]) => values.map((value) => value - mean(values));
  const [x, y] = [deviations(labelled), deviations(judged)];
  const product = (a: readonly number[], b: readonly number[]) => mean(a.map((value, i) => value * (b[i] ?? 0)));
  const scale = Math.sqrt(product(x, x) * product(y, y));
  const correlation = scale < ROUNDING ? null : Math.max(-1, Math.min(1, product(x, y) / scale));
  return {
    ...{ n, meanAbsoluteError: mean(errors.map(Math.abs)), meanError: mean(errors) },
    ...{ close: near / n, closeInterval: wilson({ n, correct: near }) },
    ...{ correlation, correlationInterval: fisher(correlation, n) },
  };
}

function fisher(correlation: number | null, n: number): Interval | null {
  if (correlation === null || Math.abs(correlation) === 1 || n < 4) return null;
  const [centre, half] = [Math.atanh(correlation), Z / Math.sqrt(n - 3)];
  return { low: Math.tanh(centre - half), high: Math.tanh(centre + half) };
}
