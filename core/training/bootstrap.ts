/**
 * @file 95% confidence intervals for comparisons of training arms: for a share, and for the difference of two shares, by a bootstrap over
 * questions and training seeds.
 *
 * Seeds and questions are crossed, not nested: every seed's team answers the same questions, and a hard question is hard for all of them.
 * So one is resampled while the other is fixed, with the same draws for both arms, which pairs differences question by question. The
 * two deviations are then added. MS are the mean squares of the two-way (seed x question) table of linearized scores:
 *
 *     questions   S x Q table, Q - 1 of Q questions drawn, the same for all seeds      variance MS_questions / SQ
 *     seeds       S - 1 of S seeds drawn, times k                                      variance k^2 MS_seeds / SQ
 *     k^2 = (t / z)^2 - MS_noise / MS_seeds, at least 0
 *
 * n - 1 of n are drawn because that makes the variance of a mean unbiased (Rao and Wu 1988, "Resampling inference with complex survey
 * data", JASA 83). Few seeds say little about the spread of seeds: t / z, the ratio of Student's quantile at S - 1 degrees of freedom to
 * the normal one, corrects for that. The noise of single answers is in both mean squares and is subtracted once. Resampling both at once
 * (Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1) would count it three times. A test checks the coverage.
 * With one seed only questions are resampled: the interval holds for that one team, not for other seeds.
 *
 * Where all answers are correct, or all wrong, every resample is the same. The interval of a share is then that of confidence-interval.ts, which
 * counts each question once: 100% of 64 questions is [94.3%, 100%], not [100%, 100%]. It is also that interval where resamples are the same for
 * another reason, as with one seed and one question. Where two arms differ by the same amount on every question, the interval of the difference is
 * that amount plus or minus Wilson's upper bound on the share of questions with another difference, of which none was seen: two arms with
 * 64 of 64 differ by [-5.7, 5.7] points.
 */
import { type Random, type StreamName, stream } from "../random.ts";
import { mean } from "../statistics.ts";
import {
  accuracyInterval,
  type ConfidenceInterval,
  NORMAL_975,
  sumTallies,
  type Tally,
  wilson,
} from "./confidence-interval.ts";

/** [seed][question]: the tally of that seed's team on that question. Every row has the same questions, in the same order. */
export type Tallies_SQ = readonly (readonly Tally[])[];

/** A share, or a difference of shares, with its 95% interval. */
export interface Estimate extends ConfidenceInterval {
  readonly value: number;
}

const RESAMPLES = 2000;
/** Student's 97.5% quantiles at 1, 2, 3 … degrees of freedom. */
const STUDENT_975 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
];

/**
 * Student's 97.5% quantile. Beyond the table: the first term of the expansion in 1 / degrees of freedom (2.108 at 16; the exact value is
 * 2.120).
 */
export const student975 = (degreesOfFreedom: number): number =>
  STUDENT_975[degreesOfFreedom - 1] ?? NORMAL_975 + (NORMAL_975 ** 3 + NORMAL_975) / (4 * degreesOfFreedom);

/** The pooled share of all tallies. Undefined if nothing was counted. `name`: begins the name of the random stream, if one is needed. */
export function shareEstimate(tallies_SQ: Tallies_SQ, name: StreamName): Estimate | undefined {
  const found = estimate([{ sign: 1, tallies_SQ }], name, [0, 1]);
  if (!found || found.high - found.low > ROUNDING) return found;
  return { value: found.value, ...accuracyInterval(pooled(tallies_SQ)) };
}

/** The first share minus the second, paired by seed and question. */
export function differenceEstimate(a_SQ: Tallies_SQ, b_SQ: Tallies_SQ, name: StreamName): Estimate | undefined {
  const found = estimate(difference(a_SQ, b_SQ), name, [-1, 1]);
  if (!found || found.high - found.low > ROUNDING) return found;
  const other = pooled(b_SQ);
  const counted = pooled(a_SQ).filter(({ n }, q) => n > 0 && (other[q]?.n ?? 0) > 0).length;
  const { high: half } = wilson({ n: counted, correct: 0 });
  const { value } = found;
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

/** Resamples of the same value differ by no more. */
const ROUNDING = 1e-9;

/** The table whose mean squares decide the width of `differenceEstimate`: the paired difference of each seed and question, up to a constant. */
export const differenceTable = (a_SQ: Tallies_SQ, b_SQ: Tallies_SQ): number[][] => linearized(difference(a_SQ, b_SQ));

/** The estimated value is the sum of the arms' shares, with their signs. */
interface SignedArm {
  readonly sign: number;
  readonly tallies_SQ: Tallies_SQ;
}

/** At least one; all have the same seeds and questions. */
type SignedArms = readonly [SignedArm, ...SignedArm[]];

const difference = (a_SQ: Tallies_SQ, b_SQ: Tallies_SQ): SignedArms => [
  { sign: 1, tallies_SQ: a_SQ },
  { sign: -1, tallies_SQ: b_SQ },
];

function estimate(arms: SignedArms, name: StreamName, [least, most]: readonly [number, number]): Estimate | undefined {
  const [S, Q] = [arms[0].tallies_SQ.length, arms[0].tallies_SQ[0]?.length ?? 0];
  const perSeed = arms.map(({ sign, tallies_SQ }) => ({ sign, tallies: tallies_SQ.map(sumTallies) }));
  const perQuestion = arms.map(({ sign, tallies_SQ }) => ({ sign, tallies: pooled(tallies_SQ) }));
  const value = signedSum(perSeed, new Uint32Array(S).fill(1));
  if (!Number.isFinite(value)) return undefined;
  const k = S > 1 ? seedFactor(linearized(arms), student975(S - 1)) : 0;
  const random = stream(...name, "bootstrap");
  const resamples = Array.from({ length: RESAMPLES }, () => {
    const byQuestion = signedSum(perQuestion, draw(Q, random)) - value;
    const bySeed = signedSum(perSeed, draw(S, random)) - value;
    return byQuestion + k * bySeed;
  });
  // A resample may contain nothing that was counted: NaN.
  const deviations = resamples.filter(Number.isFinite).sort((a, b) => a - b);
  const bound = (q: number) => Math.min(most, Math.max(least, value + quantile(deviations, q)));
  return { value, low: bound(0.025), high: bound(0.975) };
}

/** Each question's tally over all seeds. */
const pooled = (tallies_SQ: Tallies_SQ): Tally[] =>
  (tallies_SQ[0] ?? []).map((_, q) => sumTallies(tallies_SQ.flatMap((row) => row[q] ?? [])));

/** The signed sum of the arms' pooled shares, with tally i counted `times_N[i]` times. */
function signedSum(arms: readonly { sign: number; tallies: readonly Tally[] }[], times_N: Uint32Array): number {
  let sum = 0;
  for (const { sign, tallies } of arms) {
    let [n, correct] = [0, 0];
    for (let i = 0; i < tallies.length; i++) {
      const times = times_N[i] as number;
      const tally = tallies[i] as Tally;
      n += times * tally.n;
      correct += times * tally.correct;
    }
    sum += sign * (correct / n);
  }
  return sum;
}

/** k in the file comment; `t` is Student's quantile. */
function seedFactor(table: readonly (readonly number[])[], t: number): number {
  const { seeds, noise } = meanSquares(table);
  return seeds === 0 ? 0 : Math.sqrt(Math.max(0, (t / NORMAL_975) ** 2 - noise / seeds));
}

/** Of a table of at least two seeds. `noise`: of what neither the seed nor the question explains. It and `questions` are 0 with one question. */
export function meanSquares(table_SQ: readonly (readonly number[])[]): {
  readonly seeds: number;
  readonly questions: number;
  readonly noise: number;
} {
  const [S, Q] = [table_SQ.length, table_SQ[0]?.length ?? 0];
  const seeds_S = table_SQ.map(mean);
  const questions_Q = Array.from({ length: Q }, (_, q) => mean(table_SQ.map((row) => row[q] ?? 0)));
  const grand = mean(seeds_S);
  const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value * value, 0);
  const residuals = table_SQ.flatMap((row, s) =>
    row.map((value, q) => value - (seeds_S[s] ?? 0) - (questions_Q[q] ?? 0) + grand),
  );
  return {
    seeds: (Q * squares(seeds_S.map((value) => value - grand))) / (S - 1),
    questions: Q > 1 ? (S * squares(questions_Q.map((value) => value - grand))) / (Q - 1) : 0,
    noise: Q > 1 ? squares(residuals) / ((S - 1) * (Q - 1)) : 0,
  };
}

/** A table whose resampled mean is, to first order, the deviation of the estimate. A pooled share becomes (correct - share * n) / mean n. */
function linearized(arms: SignedArms): number[][] {
  const terms = arms.map(({ sign, tallies_SQ }) => {
    const { n, correct } = sumTallies(tallies_SQ.flat());
    const perCell = n / tallies_SQ.flat().length;
    return tallies_SQ.map((row) => row.map((tally) => (sign * (tally.correct - (correct / n) * tally.n)) / perCell));
  });
  return arms[0].tallies_SQ.map((row, s) =>
    row.map((_, q) => terms.reduce((sum, term) => sum + (term[s]?.[q] ?? 0), 0)),
  );
}

/** Draws n - 1 of n with replacement and counts how often each was drawn. If n is 1, that one is drawn. */
function draw(n: number, random: Random): Uint32Array {
  const counts = new Uint32Array(n);
  if (n === 1) return counts.fill(1);
  for (let i = 0; i < n - 1; i++) {
    const drawn = random.integer(n);
    counts[drawn] = (counts[drawn] ?? 0) + 1;
  }
  return counts;
}

/** Interpolated; the values must be sorted. */
function quantile(sorted: readonly number[], q: number): number {
  const at = q * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return below + (at - Math.floor(at)) * (above - below);
}
