/** @file What a soak shows: its samples as lines to draw, as CSV, and how each quantity changed from the first quarter to the last. */
import { median } from "../../core/statistics.ts";
import type { SoakSample } from "./sample.ts";

export interface SoakLine {
  readonly name: string;
  readonly points: readonly (readonly [minutes: number, value: number])[];
}

export interface Series {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly SoakLine[];
}

type Value = (sample: SoakSample, before: SoakSample | undefined) => number | undefined;

const MEGABYTE = 1e6;

/** By the name of its picture. */
export function seriesOf(samples: readonly SoakSample[]): Readonly<Record<string, Series>> {
  const processes = [...new Set(samples.flatMap(({ bytes }) => Object.keys(bytes)))].sort();
  const perProcess = (key: "bytes" | "openFiles", scale: number) =>
    processes.map((name) => lineOf(name, samples, (sample) => scaled(sample[key][name], scale)));
  return {
    memory: { title: "Memory of each process", unit: "MB", lines: perProcess("bytes", MEGABYTE) },
    "open-files": { title: "Open files of each process", unit: "files", lines: perProcess("openFiles", 1) },
    files: {
      title: "Files that a step adds to the run's folder",
      unit: "files per step",
      lines: [lineOf("files per step", samples, filesPerStep)],
    },
    latencies: {
      title: "Durations",
      unit: "seconds",
      lines: [
        lineOf("step (median)", samples, ({ stepSeconds }) => stepSeconds),
        lineOf("mgrpo show", samples, ({ showSeconds }) => showSeconds),
      ],
    },
  };
}

const scaled = (value: number | undefined, scale: number) => (value === undefined ? undefined : value / scale);

const filesPerStep: Value = (sample, before) =>
  before && sample.steps > before.steps ? (sample.files - before.files) / (sample.steps - before.steps) : undefined;

function lineOf(name: string, samples: readonly SoakSample[], read: Value): SoakLine {
  const points = samples.flatMap((sample, i) => {
    const value = read(sample, samples[i - 1]);
    return value === undefined ? [] : [[sample.minutes, value] as const];
  });
  return { name, points };
}

/** One JSON object per line: medians of the first and the last quarter of its points. */
export function summaryOf(samples: readonly SoakSample[]): string[] {
  return Object.entries(seriesOf(samples)).flatMap(([picture, { unit, lines }]) =>
    lines.map(({ name, points }) => {
      const values = points.map(([, value]) => value);
      const quarter = Math.ceil(values.length / 4);
      const [first, last] = [values.slice(0, quarter), values.slice(-quarter)].map((part) => rounded(median(part)));
      return JSON.stringify({ name: `soak.${picture}`, of: name, first, last, unit });
    }),
  );
}

const rounded = (value: number) => Number(value.toPrecision(4));

export function toCsv(samples: readonly SoakSample[]): string {
  const series = seriesOf(samples);
  const columns = Object.entries(series).flatMap(([picture, { lines }]) =>
    lines.map(({ name, points }) => ({ name: `${picture}: ${name}`, values: new Map(points) })),
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
