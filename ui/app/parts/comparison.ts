/** @file The curves and settings of several runs. Pure. */
import { smooth } from "../../palette.ts";
import type { RunView } from "../../views.ts";
import type { ChartProps, Line } from "./chart.tsx";

/** What the curves are drawn over. */
export type Axis = "step" | "tokens" | "seconds";

type Points = readonly (readonly [x: number, y: number | null])[];
type Step = RunView["perStep"][number];

/** Most places at which the seeds of an arm are averaged. */
const PLACES = 100;

/** @param merged whether the seeds of a recipe's arm become one mean between its lowest and highest seed. */
export function comparedLines(runs: readonly RunView[], axis: Axis, merged: boolean): Omit<ChartProps, "onPick">[] {
  const agents = [...new Set(runs.flatMap((run) => run.agents.map(({ name }) => name)))];
  const families = [...new Set(runs.map((run) => (merged ? familyOf(run) : run.run)))];
  const xName = axis === "step" ? "steps" : axis === "tokens" ? "sampled tokens" : "seconds";
  return agents.map((agent) => ({
    title: `reward of ${agent}`,
    xName,
    lines: families.flatMap((family, color) => {
      const own = runs.filter((run) => (merged ? familyOf(run) : run.run) === family);
      const curves = own.map((run) => curveOf(run, axis, ({ reward }) => reward[agent] ?? null));
      return linesOf(
        family,
        color,
        curves.filter((points) => points.some(([, y]) => y !== null)),
      );
    }),
  }));
}

const familyOf = ({ recipe, arm }: RunView): string => `${recipe} ${arm}`;

function curveOf({ perStep }: RunView, axis: Axis, of: (step: Step) => number | null): Points {
  let x = 0;
  const smoothed = smooth(perStep.map(of));
  return perStep.map((step, i) => {
    x += axis === "step" ? 1 : axis === "tokens" ? step.sampledTokens : (step.seconds ?? 0);
    return [x, smoothed[i] ?? null];
  });
}

function linesOf(name: string, color: number, curves: readonly Points[]): Line[] {
  const [only] = curves;
  if (!only) return [];
  if (curves.length === 1) return [{ name, color, points: only }];
  const end = Math.min(...curves.map((points) => points.at(-1)?.[0] ?? 0));
  const first = Math.max(...curves.map((points) => points[0]?.[0] ?? 0));
  const [shortest] = curves.toSorted((a, b) => a.length - b.length);
  const many = Math.min(PLACES, shortest?.length ?? 0);
  const places = Array.from({ length: many }, (_, i) => first + (i * (end - first)) / Math.max(1, many - 1));
  const at = places.map((x) => curves.flatMap((points) => valueAt(points, x) ?? []));
  const line = (of: (values: readonly number[]) => number): Points =>
    places.map((x, i) => [x, at[i]?.length ? of(at[i]) : null]);
  return [
    { name, color, points: line((values) => values.reduce((sum, one) => sum + one, 0) / values.length) },
    { name, color, kind: "raw", points: line((values) => Math.min(...values)) },
    { name, color, kind: "raw", points: line((values) => Math.max(...values)) },
  ];
}

/** The newest value at or before x. */
const valueAt = (points: Points, x: number): number | null => points.findLast(([at]) => at <= x)?.[1] ?? null;

export interface DifferingSetting {
  readonly path: string;
  /** One per config. */
  readonly values: readonly string[];
}

/** The settings that are not the same in all configs; the run's name is left out. */
export function differingSettings(configs: readonly unknown[]): DifferingSetting[] {
  const flat = configs.map((config) => new Map(leavesOf(config, "")));
  const paths = [...new Set(flat.flatMap((leaves) => [...leaves.keys()]))].filter((path) => path !== "run");
  const rows = paths.map((path) => ({ path, values: flat.map((leaves) => leaves.get(path) ?? "–") }));
  return rows.filter(({ values }) => new Set(values).size > 1);
}

function leavesOf(value: unknown, path: string): [string, string][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, path === "" ? key : `${path}.${key}`));
}
