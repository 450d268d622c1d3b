/** @file The results of a soak: its samples as series to plot, as CSV, and whether each quantity is flat. */
import { median } from "../../core/statistics.ts";
import type { SoakSample } from "./sample.ts";
import { type Point, type Trend, trendOf } from "./trend.ts";

export interface SoakLine {
  readonly name: string;
  readonly points: readonly Point[];
}

export interface Series {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly SoakLine[];
}

type Value = (sample: SoakSample, before: SoakSample | undefined) => number | undefined;

const MEGABYTE = 1e6;
/** Kinds of record that accumulate: a run keeps one per step, or one per evaluation. */
const ADDED_BY_STEPS: ReadonlySet<string> = new Set(["STEP", "JOB"]);

/** The charts, by file name without extension. */
export function seriesOf(samples: readonly SoakSample[]): Readonly<Record<string, Series>> {
  const processes = namesOf(samples, "bytes");
  const perProcess = (key: "bytes" | "openFiles", divisor: number) =>
    processes.map((name) => lineOf(name, samples, (sample) => dividedBy(sample[key][name], divisor)));
  return {
    memory: { title: "Memory of each process", unit: "MB", lines: perProcess("bytes", MEGABYTE) },
    "open-files": { title: "Open files of each process", unit: "files", lines: perProcess("openFiles", 1) },
    files: {
      title: "Files that a step adds to the run's folder",
      unit: "files per step",
      lines: [
        lineOf(
          "files per step",
          samples,
          perStep(({ files }) => files),
        ),
      ],
    },
    records: {
      title: "Records in the run's partition",
      unit: "records; STEP and JOB: those that a step adds",
      lines: namesOf(samples, "records").map((kind) => {
        const count = ({ records }: SoakSample) => records[kind] ?? 0;
        return lineOf(kind, samples, ADDED_BY_STEPS.has(kind) ? perStep(count) : count);
      }),
    },
    latencies: {
      title: "Durations",
      unit: "seconds",
      lines: [
        lineOf("step (median)", samples, ({ stepSeconds }) => stepSeconds),
        lineOf("mgrpo show", samples, ({ showSeconds }) => showSeconds),
        lineOf("mgrpo show of a step", samples, ({ showStepSeconds }) => showStepSeconds),
      ],
    },
  };
}

const dividedBy = (value: number | undefined, divisor: number) => (value === undefined ? undefined : value / divisor);

const namesOf = (samples: readonly SoakSample[], key: "bytes" | "records"): string[] =>
  [...new Set(samples.flatMap((sample) => Object.keys(sample[key])))].sort();

const perStep =
  (count: (sample: SoakSample) => number): Value =>
  (sample, before) =>
    before && sample.steps > before.steps ? (count(sample) - count(before)) / (sample.steps - before.steps) : undefined;

function lineOf(name: string, samples: readonly SoakSample[], read: Value): SoakLine {
  const points = samples.flatMap((sample, i) => {
    const value = read(sample, samples[i - 1]);
    return value === undefined ? [] : [[sample.minutes, value] as const];
  });
  return { name, points };
}

/** The result for one quantity. */
export interface SoakResult extends Trend {
  /** `soak.<chart>`. */
  readonly name: string;
  /** The line in the chart. */
  readonly of: string;
  /** Medians of the first and the last quarter of its points. */
  readonly first: number;
  readonly last: number;
  readonly unit: string;
}

export function resultsOf(samples: readonly SoakSample[]): SoakResult[] {
  return Object.entries(seriesOf(samples)).flatMap(([chart, { unit, lines }]) =>
    lines.map(({ name, points }) => {
      const values = points.map(([, value]) => value);
      const quarter = Math.ceil(values.length / 4);
      const [first, last] = [rounded(median(values.slice(0, quarter))), rounded(median(values.slice(-quarter)))];
      const { growth, verdict } = trendOf(points);
      return { name: `soak.${chart}`, of: name, first, last, unit, growth: rounded(growth), verdict };
    }),
  );
}

const rounded = (value: number) => Number(value.toPrecision(4));

export function toCsv(samples: readonly SoakSample[]): string {
  const series = seriesOf(samples);
  const columns = Object.entries(series).flatMap(([chart, { lines }]) =>
    lines.map(({ name, points }) => ({ name: `${chart}: ${name}`, values: new Map(points) })),
  );
  const head = ["minutes", "steps", "files", ...columns.map(({ name }) => name)];
  const rows = samples.map(({ minutes, steps, files }) => [
    minutes.toFixed(2),
    steps,
    files,
    ...columns.map(({ values }) => values.get(minutes)?.toPrecision(4) ?? ""),
  ]);
  return `${[head, ...rows].map((row) => row.join(",")).join("\n")}\n`;
}
