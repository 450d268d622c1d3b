/** @file The reward curves of several runs, smoothed. Pure. */
import type { StepSummary } from "../../../core/monitoring/step-summary.ts";
import type { ComparedArm } from "../../compare-view.ts";
import { smooth } from "../../palette.ts";
import type { RunView } from "../../views.ts";
import type { ChartProps, Line } from "./chart-props.ts";

/** What the x axis can show, with its title. */
export const AXES = { step: "steps", tokens: "sampled tokens", seconds: "seconds", usd: "dollars" } as const;
export type Axis = keyof typeof AXES;

type Points = readonly (readonly [x: number, y: number | null])[];

/** Maximum number of points at which the seeds of an arm are averaged. */
const MAX_POINTS = 100;

export interface ComparedCharts {
  readonly charts: readonly Omit<ChartProps, "onPick">[];
  /** Runs that are not drawn: the x of some step is unknown. */
  readonly omitted: readonly string[];
}

/** @param merged whether the seeds of an arm become one line, their mean, with a band from the lowest to the highest. */
export function comparedCharts(
  runs: readonly RunView[],
  arms: readonly ComparedArm[],
  axis: Axis,
  merged: boolean,
): ComparedCharts {
  const xsOfRuns = new Map(runs.map((run) => [run.run, xsOf(run, axis)]));
  const shown = runs.filter(({ run }) => xsOfRuns.get(run));
  const agents = [...new Set(shown.flatMap((run) => run.agents.map(({ name }) => name)))];
  const lines = merged ? arms : arms.flatMap(({ runs }) => runs.map((run) => ({ label: run, runs: [run] })));
  const curveOf = (run: RunView, agent: string): Points => {
    const smoothed = smooth(run.perStep.map(({ reward }) => reward[agent] ?? null));
    return (xsOfRuns.get(run.run) ?? []).map((x, i) => [x, smoothed[i] ?? null]);
  };
  const charts = agents.map((agent) => ({
    title: `reward of ${agent}`,
    xName: AXES[axis],
    lines: lines.flatMap(({ label, runs: own }, color) => {
      const curves = shown.filter(({ run }) => own.includes(run)).map((run) => curveOf(run, agent));
      return lineOf(
        label,
        color,
        curves.filter((points) => points.some(([, y]) => y !== null)),
      );
    }),
  }));
  return { charts, omitted: runs.flatMap(({ run }) => (xsOfRuns.get(run) ? [] : [run])) };
}

/** The x of each step; undefined if that of some step is unknown. */
function xsOf({ perStep }: RunView, axis: Axis): readonly number[] | undefined {
  const xs: number[] = [];
  for (const [i, summary] of perStep.entries()) {
    // A step whose scores have expired has no summary: from then on, the sum over all steps so far is unknown.
    const before = summary.step === i ? (xs.at(-1) ?? 0) : undefined;
    const x = xOf(summary, before, axis);
    if (x === undefined) return undefined;
    xs.push(x);
  }
  return xs;
}

/** @param before the x of the step before, 0 if there is none; undefined: unknown. */
function xOf(summary: StepSummary, before: number | undefined, axis: Axis): number | undefined {
  if (axis === "step") return summary.step + 1;
  if (axis === "usd") return summary.usd;
  const own = axis === "seconds" ? summary.seconds : summary.sampledTokens;
  return before === undefined || own === null ? undefined : before + own;
}

/**
 * A single curve is drawn as it is. Several curves become their mean over the range in which they overlap, with a band from the lowest to the
 * highest; if they do not overlap, they become a single point.
 */
function lineOf(name: string, color: number, curves: readonly Points[]): Line[] {
  const [only] = curves;
  if (!only) return [];
  if (curves.length === 1) return [{ name, color, points: only }];
  const end = Math.min(...curves.map((points) => points.at(-1)?.[0] ?? 0));
  const first = Math.max(...curves.map((points) => points[0]?.[0] ?? 0));
  const [shortest] = curves.toSorted((a, b) => a.length - b.length);
  const n = end > first ? Math.min(MAX_POINTS, shortest?.length ?? 0) : 1;
  // The last x is exact: rounded down, it would miss the last value of the curve that ends there.
  const xs = Array.from({ length: n }, (_, i) =>
    i === n - 1 ? Math.max(first, end) : first + (i * (end - first)) / (n - 1),
  );
  const at = xs.map((x) => ({ x, values: curves.flatMap((points) => valueAt(points, x) ?? []) }));
  const known = at.filter(({ values }) => values.length > 0);
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const band = known.map(({ x, values }) => [x, Math.min(...values), Math.max(...values)] as const);
  return [{ name, color, points: known.map(({ x, values }) => [x, mean(values)]), band }];
}

/** The newest value at or before x. */
const valueAt = (points: Points, x: number): number | null => points.findLast(([at]) => at <= x)?.[1] ?? null;
