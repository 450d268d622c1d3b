/**
 * @file How sure an evaluation's score is: the 95 % interval of the mean accuracy over questions like these.
 *
 * The sampling unit is the question, not the rollout: runs of one question agree with each other more than runs of two, so counting
 * every rollout as a trial of its own would promise too much (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640). The
 * variance v of the mean is the ratio estimator's, with questions as clusters (Cochran 1977, "Sampling Techniques", ch. 6; questions that
 * lost runs to infrastructure weigh less), and Wilson's interval (1927) is taken at the effective sample size p(1 - p) / v (Kish 1965),
 * which keeps its coverage near 0 and 1 and with few questions, where p +- 1.96 sqrt(v) and a Student interval over question means do not
 * (Franco, Little, Louis and Slud 2019, "Comparative study of confidence intervals for proportions in complex sample surveys"). The
 * effective size lies between the number of questions (runs all agree) and the number of rollouts (runs are independent). With one run the
 * two are equal: then this is Wilson's interval itself. No resampling, so no seed.
 */

/** Shares in [0, 1]. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** `correct` of `n`: of a question over its runs, or of a run over its questions. `correct` is a sum of scores in [0, 1]. */
export interface Score {
  readonly n: number;
  readonly correct: number;
}

/** The 97.5 % quantile of the normal distribution. */
const Z = 1.96;

/** Wilson's 95 % interval of a share: honest near 0 and 1, where the textbook's is not. Nothing is known of no trials. */
export function wilson({ n, correct }: Score): Interval {
  if (n === 0) return { low: 0, high: 1 };
  const share = correct / n;
  const scale = 1 + (Z * Z) / n;
  const centre = (share + (Z * Z) / (2 * n)) / scale;
  const half = (Z / scale) * Math.sqrt((share * (1 - share)) / n + (Z * Z) / (4 * n * n));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

/** The interval of the mean accuracy, from each question's score over its runs. Questions without a counted run say nothing. */
export function accuracyInterval(questions: readonly Score[]): Interval {
  const asked = questions.filter(({ n }) => n > 0);
  const { n, correct } = total(asked);
  if (n === 0) return { low: 0, high: 1 };
  const share = correct / n;
  const variance = asked.reduce((sum, one) => sum + (one.correct - share * one.n) ** 2, 0) / (n * n);
  // 0 / 0 where every rollout is right, or every one wrong: then the runs agree.
  const effective = share * (1 - share) === 0 ? asked.length : (share * (1 - share)) / variance;
  const size = Math.min(n, Math.max(asked.length, effective));
  return wilson({ n: size, correct: share * size });
}

/** The sum of scores. */
export function total(scores: readonly Score[]): Score {
  return scores.reduce((sum, one) => ({ n: sum.n + one.n, correct: sum.correct + one.correct }), { n: 0, correct: 0 });
}
