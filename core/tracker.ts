/** @file The port of an experiment tracker: a service or a file that receives a run's metrics. */
import type { MetricLine } from "./monitoring/metrics.ts";

export interface Tracker {
  readonly name: string;
  /** Where the lines go: a new destination gets every line. Only its hash is stored. Absent: always the same place. */
  readonly destination?: string;
  /** Set if the tracker is empty whenever it is opened, so that every line must be sent again. */
  readonly startsOver?: true;
  /** Maximum number of lines in one `send`, and so of those that are sent again after a failure. Default: all there are. */
  readonly linesAtOnce?: number;
  /** Sends lines in order. Idempotent: lines that are sent again change nothing. While the run trains, every rejection is retried. */
  send(lines: readonly MetricLine[], signal: AbortSignal): Promise<void>;
  /** Marks the run as over. Also idempotent. `endedAt`: wall-clock milliseconds. */
  finish(status: "finished" | "failed", endedAt: number, signal: AbortSignal): Promise<void>;
}
