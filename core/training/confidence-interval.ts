/**
 * @file The 95% confidence interval of an evaluation's mean accuracy, treating its questions as a sample.
 *
 * The sampling unit is the question, not the rollout: runs of one question agree more than runs of different questions, so an interval over
 * independent rollouts would be too narrow (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640). The variance v of the mean is the
 * ratio estimator's, with questions as clusters (Cochran 1977, "Sampling Techniques", ch. 6); questions that lost runs weigh less.
 * Wilson's interval (1927) is then taken at the effective sample size p(1 - p) / v (Kish 1965). It keeps its coverage near 0 and 1 and with few
 * questions, where p +- 1.96 sqrt(v) and a Student interval over question means do not (Franco, Little, Louis and Slud
 * 2019, "Comparative study of confidence intervals for proportions in complex sample surveys"). The effective size lies between the
 * number of questions (all runs agree) and the number of rollouts (runs are independent). With one run the two are equal, and this is
 * Wilson's interval itself. A single question counts once, however often it was asked. Nothing is resampled, so there is no seed.
 */

/** Bounds of a share, or of a difference of shares. */
export interface ConfidenceInterval {
  readonly low: number;
  readonly high: number;
}

/** `correct` out of `n`: for a question over its runs, or for a run over its questions. `correct` is a sum of scores in [0, 1]. */
export interface Tally {
  readonly n: number;
  readonly correct: number;
}

/** The 97.5% quantile of the normal distribution. */
export const NORMAL_975 = 1.96;

/** Wilson's 95% interval of a share. Without trials it is [0, 1]. */
export function wilson({ n, correct }: Tally): ConfidenceInterval {
  if (n === 0) return { low: 0, high: 1 };
  const share = correct / n;
  const z = NORMAL_975;
  const scale = 1 + (z * z) / n;
  const center = (share + (z * z) / (2 * n)) / scale;
  const half = (z / scale) * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  return { low: Math.max(0, center - half), high: Math.min(1, center + half) };
}

/** The interval of the mean accuracy, from each question's tally over its runs. Questions without a counted run are left out. */
export function accuracyInterval(questions: readonly Tally[]): ConfidenceInterval {
  const counted = questions.filter(({ n }) => n > 0);
  const { n, correct } = sumTallies(counted);
  if (n === 0) return { low: 0, high: 1 };
  const share = correct / n;
  const variance = counted.reduce((sum, one) => sum + (one.correct - share * one.n) ** 2, 0) / (n * n);
  // The quotient is 0 / 0 if all rollouts are correct, or all wrong: then the runs agree. A single question does not show how questions differ.
  const agrees = share * (1 - share) === 0 || counted.length === 1;
  const effective = agrees ? counted.length : (share * (1 - share)) / variance;
  const size = Math.min(n, Math.max(counted.length, effective));
  return wilson({ n: size, correct: share * size });
}

export function sumTallies(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, one) => ({ n: sum.n + one.n, correct: sum.correct + one.correct }), { n: 0, correct: 0 });
}

/** The sums by index, from 0 to `count` - 1, in one pass: a set may have tens of thousands of questions. */
export function sumTalliesBy<T>(
  count: number,
  items: readonly T[],
  indexOf: (item: T) => number,
  tallyOf: (item: T) => Tally,
): Tally[] {
  const sums = Array.from({ length: count }, () => ({ n: 0, correct: 0 }));
  for (const item of items) {
    const sum = sums[indexOf(item)];
    if (!sum) continue;
    const { n, correct } = tallyOf(item);
    sum.n += n;
    sum.correct += correct;
  }
  return sums;
}
