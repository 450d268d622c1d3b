/**
 * @file How sure a comparison of training arms is: 95 % intervals of a share, and of the difference of two shares, by a hierarchical
 * bootstrap over questions and training seeds.
 *
 * Seeds and questions are crossed, not nested: every seed's team is asked the same questions, and a hard one is hard for all of them.
 * So each is resampled while the other stays, for both arms alike, which makes differences paired question by question, and
 * the two deviations are added. With d the linearised score of a seed on a question, and MS the mean squares of its two-way table:
 *
 *     questions   S x Q table, Q - 1 of Q questions drawn, the same for all seeds      variance MS_questions / SQ
 *     seeds       S - 1 of S seeds drawn, times k                                      variance k^2 MS_seeds / SQ
 *     k^2 = (t / z)^2 - MS_noise / MS_seeds, at least 0
 *
 * n - 1 of n are drawn because that makes the variance of a mean unbiased (Rao and Wu 1988, "Resampling inference with complex survey
 * data", JASA 83). Five seeds tell little about how seeds spread: t / z, Student's quantile at S - 1 degrees of freedom to the
 * normal one, says how little. Noise of the single answer is in both mean squares and is taken off once; resampling both at once (Owen
 * 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1) would count it three times. A test measures the coverage.
 * With one seed only questions are resampled: the interval is of that one team, and says nothing of another seed.
 */
import { type Random, type StreamName, stream } from "../random.ts";
import { type Interval, type Score, total } from "./interval.ts";

/** [seed][question]: what that seed's team made of that question. Every row has the same questions, in the same order. */
export type Scores_SQ = readonly (readonly Score[])[];

/** A share, or a difference of shares, with its 95 % interval. */
export interface Estimate extends Interval {
  readonly value: number;
}

const RESAMPLES = 2000;
/** The 97.5 % quantiles: of the normal distribution, and Student's at 1, 2, 3 … degrees of freedom. */
const Z = 1.96;
const STUDENT = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
];

/** Beyond the table by the first term of its expansion in 1 / degrees of freedom: 2.108 at 16, where 2.120 is right. */
const student = (freedom: number): number => STUDENT[freedom - 1] ?? Z + (Z ** 3 + Z) / (4 * freedom);

/** The pooled share of all scores. Undefined where nothing was counted. `name` is the stream of its draws. */
export function shareEstimate(scores_SQ: Scores_SQ, name: StreamName): Estimate | undefined {
  return estimate([{ sign: 1, scores_SQ }], name, [0, 1]);
}

/** The first share less the second, paired by seed and question. */
export function differenceEstimate(a_SQ: Scores_SQ, b_SQ: Scores_SQ, name: StreamName): Estimate | undefined {
  const arms = [
    { sign: 1, scores_SQ: a_SQ },
    { sign: -1, scores_SQ: b_SQ },
  ];
  return estimate(arms, name, [-1, 1]);
}

/** What is estimated is the sum of the arms' shares, with their signs. */
interface Arm {
  readonly sign: number;
  readonly scores_SQ: Scores_SQ;
}

function estimate(
  arms: readonly Arm[],
  name: StreamName,
  [least, most]: readonly [number, number],
): Estimate | undefined {
  const [S, Q] = [arms[0]?.scores_SQ.length ?? 0, arms[0]?.scores_SQ[0]?.length ?? 0];
  const perSeed = arms.map(({ sign, scores_SQ }) => ({ sign, scores: scores_SQ.map(total) }));
  const perQuestion = arms.map(({ sign, scores_SQ }) => ({
    sign,
    scores: Array.from({ length: Q }, (_, q) => total(scores_SQ.flatMap((row) => row[q] ?? []))),
  }));
  const value = combined(perSeed, new Uint32Array(S).fill(1));
  if (!Number.isFinite(value)) return undefined;
  const k = S > 1 ? stretch(linearised(arms), student(S - 1)) : 0;
  const random = stream(...name, "bootstrap");
  const deviations: number[] = [];
  for (let i = 0; i < RESAMPLES; i++) {
    const byQuestion = combined(perQuestion, draw(Q, random)) - value;
    const bySeed = combined(perSeed, draw(S, random)) - value;
    // A resample in which nothing was counted says nothing.
    if (Number.isFinite(byQuestion) && Number.isFinite(bySeed)) deviations.push(byQuestion + k * bySeed);
  }
  deviations.sort((a, b) => a - b);
  const bound = (q: number) => Math.min(most, Math.max(least, value + quantile(deviations, q)));
  return { value, low: bound(0.025), high: bound(0.975) };
}

/** The pooled shares of the arms, each score counted so often, added with their signs. */
function combined(arms: readonly { sign: number; scores: readonly Score[] }[], times_N: Uint32Array): number {
  let sum = 0;
  for (const { sign, scores } of arms) {
    let [n, correct] = [0, 0];
    for (let i = 0; i < scores.length; i++) {
      const times = times_N[i] as number;
      const score = scores[i] as Score;
      n += times * score.n;
      correct += times * score.correct;
    }
    sum += sign * (correct / n);
  }
  return sum;
}

/** k of the header. */
function stretch(table: readonly (readonly number[])[], student: number): number {
  const [S, Q] = [table.length, table[0]?.length ?? 0];
  const seeds_S = table.map(mean);
  const questions_Q = Array.from({ length: Q }, (_, q) => mean(table.map((row) => row[q] ?? 0)));
  const grand = mean(seeds_S);
  const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value * value, 0);
  const msSeeds = (Q * squares(seeds_S.map((value) => value - grand))) / (S - 1);
  const residuals = table.flatMap((row, s) =>
    row.map((value, q) => value - (seeds_S[s] ?? 0) - (questions_Q[q] ?? 0) + grand),
  );
  const msNoise = Q > 1 ? squares(residuals) / ((S - 1) * (Q - 1)) : 0;
  return msSeeds === 0 ? 0 : Math.sqrt(Math.max(0, (student / Z) ** 2 - msNoise / msSeeds));
}

/** The estimate as the mean of a table, but for a constant: a pooled share is linearised to (correct - share * n) / mean n. */
function linearised(arms: readonly Arm[]): number[][] {
  const terms = arms.map(({ sign, scores_SQ }) => {
    const { n, correct } = total(scores_SQ.flat());
    const perCell = n / scores_SQ.flat().length;
    return scores_SQ.map((row) => row.map((score) => (sign * (score.correct - (correct / n) * score.n)) / perCell));
  });
  const [first = []] = terms;
  return first.map((row, s) => row.map((_, q) => terms.reduce((sum, term) => sum + (term[s]?.[q] ?? 0), 0)));
}

/** Draws n - 1 of n with replacement: how often each came. One of one stays. */
function draw(n: number, random: Random): Uint32Array {
  const counts = new Uint32Array(n);
  if (n === 1) return counts.fill(1);
  for (let i = 0; i < n - 1; i++) {
    const drawn = random.integer(n);
    counts[drawn] = (counts[drawn] ?? 0) + 1;
  }
  return counts;
}

/** Of sorted values, interpolated. */
function quantile(sorted: readonly number[], q: number): number {
  const at = q * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return below + (at - Math.floor(at)) * (above - below);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
