/** @file How benchmarks time their work and print a figure: one JSON object on its own line. */
import { median } from "../core/statistics.ts";

export interface Measurement {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly config: object;
}

const DIGITS = 4;

/** Prints a figure: integers exactly, other numbers to four significant digits. */
export function print(name: string, value: number, unit: string, config: object): void {
  const rounded = Number.isInteger(value) ? value : Number(value.toPrecision(DIGITS));
  console.log(JSON.stringify({ name, value: rounded, unit, config } satisfies Measurement));
}

/** The median of the repetitions after the first, which warms up. `measure` returns what one repetition takes. */
export async function medianOf(repeats: number, measure: (repeat: number) => Promise<number>): Promise<number> {
  const taken: number[] = [];
  for (let repeat = 0; repeat <= repeats; repeat++) taken.push(await measure(repeat));
  return median(taken.slice(1));
}

/** Seconds that the work takes. */
export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

/** Processor time that the work takes, in seconds over all threads of this process. */
export async function cpuSecondsOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
