/**
 * @file The smallest difference between two arms that a comparison of S seeds and Q questions detects in 80% of cases, given how much
 * seeds, questions and individual answers vary. The model of the paired difference of seed s and question q:
 *
 *     d_sq = difference + seed_s + question_q + noise_sq        independent, normal, with the variances of VarianceComponents
 *
 * A difference is detected if the interval of `differenceEstimate` excludes 0. The estimate's variance is seed / S + question / Q + noise / SQ.
 * The interval's endpoints are the estimate plus quantiles of the bootstrap's deviation, the sum of two independent ones (bootstrap.ts):
 *
 *     questions   variance MS_questions / SQ, close to question / Q + noise / SQ
 *     seeds       variance k^2 MS_seeds / SQ = ((t / z)^2 MS_seeds - MS_noise) / SQ, at least 0
 *
 * With tens of questions, only MS_seeds can differ much from its expectation: it is (noise + Q seed) chi^2 / (S - 1), with S - 1 degrees of freedom, and
 * independent of the estimate. So the power is averaged over the distribution of chi. Both deviations are close to normal, except that with two or three seeds
 * the mean of S - 1 draws takes only 2 or 6 values: then the quantile is that of the exact distribution.
 *
 * From one seed, the variance between seeds cannot be estimated: what is detected then is the difference between two trained teams
 * (difference + seed_s), not between two arms.
 */
import { mean, sum } from "../statistics.ts";
import { meanSquares, student975 } from "./bootstrap.ts";
import { NORMAL_975 } from "./confidence-interval.ts";

const POWER = 0.8;

/** Variances of the paired difference: between seeds, between questions, and of what neither explains. */
export interface VarianceComponents {
  readonly seed: number;
  readonly question: number;
  readonly noise: number;
}

/** By the method of moments, each at least 0. `table_SQ`: paired differences (`differenceTable`) of at least two seeds and two questions. */
export function varianceComponents(table_SQ: readonly (readonly number[])[]): VarianceComponents {
  const { seeds, questions, noise } = meanSquares(table_SQ);
  const [S, Q] = [table_SQ.length, table_SQ[0]?.length ?? 0];
  return { seed: Math.max(0, (seeds - noise) / Q), question: Math.max(0, (questions - noise) / S), noise };
}

/** The smallest difference that is detected with a probability of 80%. Above 1: none, since shares differ by at most 1. */
export function detectableDifference(components: VarianceComponents, S: number, Q: number): number {
  const seed = S > 1 ? components.seed : 0;
  const sd = Math.sqrt(seed / S + components.question / Q + components.noise / (S * Q));
  if (sd === 0) return 0;
  const widths = halfWidths(components, S, Q);
  // Intervals that lie on the other side of 0 are left out: where the power is 80%, they are fewer than one in 100,000.
  const power = (difference: number) =>
    sum(widths.map(({ half, weight }) => weight * normal((difference - half) / sd)));
  let most = sd;
  while (power(most) < POWER) most *= 2;
  return bisect(0, most, (difference) => power(difference) >= POWER);
}

/** The possible half-widths of the interval, weighted by their probabilities. The weights sum to 1. */
function halfWidths({ seed, question, noise }: VarianceComponents, S: number, Q: number) {
  const questionSd = Math.sqrt(question / Q + noise / (S * Q));
  if (S === 1) return [{ half: NORMAL_975 * questionSd, weight: 1 }];
  const arrangements = drawnMeans(S);
  return chiSquared(S - 1).flatMap(({ value, weight }) => {
    const msSeeds = ((noise + Q * seed) * value) / (S - 1);
    const seedSd = Math.sqrt(Math.max(0, (student975(S - 1) / NORMAL_975) ** 2 * msSeeds - noise) / (S * Q));
    if (arrangements.length === 0) return [{ half: NORMAL_975 * Math.hypot(questionSd, seedSd), weight }];
    const each = weight / arrangements.length;
    return arrangements.map((means) => ({ half: -lowQuantile(means, questionSd, seedSd), weight: each }));
  });
}

const ANGLES = 6;

/**
 * For two or three seeds: the possible means of S - 1 draws, in units of their standard deviation, for each arrangement of the seeds'
 * deviations. The means of one arrangement are equally likely. Empty for more seeds, whose means are close to normal. Three deviations that
 * sum to 0 and have a given sum of squares lie on a circle, at a uniform angle. `ANGLES` angles up to 60 degrees stand for all, by symmetry.
 */
function drawnMeans(S: number): number[][] {
  if (S === 2) return [[-1, 1]];
  if (S > 3) return [];
  return Array.from({ length: ANGLES }, (_, i) => {
    const angle = ((i + 0.5) / ANGLES) * (Math.PI / 3);
    const deviations = [0, 1, 2].map((s) => 2 * Math.cos(angle + (s * 2 * Math.PI) / 3));
    return deviations.flatMap((first) => deviations.map((second) => (first + second) / 2));
  });
}

/** The 2.5% quantile of the sum of the two deviations. */
function lowQuantile(means: readonly number[], questionSd: number, seedSd: number): number {
  const below = (x: number) => mean(means.map((value) => normal((x - seedSd * value) / questionSd)));
  return bisect(-4 * (questionSd + seedSd), 0, (x) => below(x) >= 0.025);
}

const CHI_STEP = 0.05;

/** The chi-squared distribution, on a grid of chi. The weights sum to 1. */
function chiSquared(degreesOfFreedom: number): { readonly value: number; readonly weight: number }[] {
  const points = Array.from({ length: Math.ceil((Math.sqrt(degreesOfFreedom) + 6) / CHI_STEP) }, (_, i) => {
    const chi = (i + 0.5) * CHI_STEP;
    return { value: chi * chi, density: chi ** (degreesOfFreedom - 1) * Math.exp((-chi * chi) / 2) };
  });
  const total = sum(points.map(({ density }) => density));
  return points.map(({ value, density }) => ({ value, weight: density / total }));
}

/** The smallest x in [low, high] that is enough, if all larger ones are. */
function bisect(low: number, high: number, isEnough: (x: number) => boolean): number {
  let [least, most] = [low, high];
  for (let i = 0; i < 40; i++) {
    const middle = (least + most) / 2;
    if (isEnough(middle)) most = middle;
    else least = middle;
  }
  return most;
}

/** The standard normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.2.17). */
function normal(x: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(x));
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const tail = (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * series;
  return x > 0 ? 1 - tail : tail;
}
