/**
 * @file Whether a series is flat: by how much it grows over its second half, when the program has warmed up. The slope is the Theil-Sen
 * estimate, the median of the slopes between all pairs of points (Sen 1968, "Estimates of the regression coefficient based on Kendall's
 * tau"), which single outliers hardly affect. It counts as growth only if the Mann-Kendall test finds a rise at 95%: noise has a slope too.
 */
import { median, sum } from "../../core/statistics.ts";

export type Point = readonly [minutes: number, value: number];

export interface Trend {
  /** Over the second half, as a share of its median. NaN if it has too few points. */
  readonly growth: number;
  readonly verdict: "flat" | "grows" | "too short";
}

/** Growth up to this counts as flat. */
export const TOLERANCE = 0.05;
/** Points of the second half that a verdict needs. */
export const MIN_POINTS = 8;
/** The 95% quantile of the normal distribution: the test is one-sided. */
const NORMAL_95 = 1.645;

/** Points in order of time. */
export function trendOf(points: readonly Point[]): Trend {
  const [[begin] = [0], [end] = [0]] = [points[0], points.at(-1)];
  const half = points.filter(([minutes]) => minutes >= (begin + end) / 2);
  if (half.length < MIN_POINTS) return { growth: Number.NaN, verdict: "too short" };
  const rise = theilSen(half) * (end - (half[0]?.[0] ?? 0));
  const level = median(half.map(([, value]) => value));
  // A rise from zero is infinite growth.
  const growth = rise === 0 ? 0 : rise / Math.abs(level);
  return { growth, verdict: growth > TOLERANCE && hasRisen(half) ? "grows" : "flat" };
}

function theilSen(points: readonly Point[]): number {
  return median(pairsOf(points).map(([[t, a], [u, b]]) => (b - a) / (u - t)));
}

/** The Mann-Kendall test for a rise, with its correction for ties (Kendall 1975, "Rank Correlation Methods"). */
function hasRisen(points: readonly Point[]): boolean {
  const score = sum(pairsOf(points).map(([[, a], [, b]]) => Math.sign(b - a)));
  const counts = new Map<number, number>();
  for (const [, value] of points) counts.set(value, (counts.get(value) ?? 0) + 1);
  const varianceOf = (n: number) => (n * (n - 1) * (2 * n + 5)) / 18;
  const variance = varianceOf(points.length) - sum([...counts.values()].map(varianceOf));
  return score > 0 && (score - 1) / Math.sqrt(variance) > NORMAL_95;
}

const pairsOf = (points: readonly Point[]): [Point, Point][] =>
  points.flatMap((earlier, i) => points.slice(i + 1).map((later): [Point, Point] => [earlier, later]));
