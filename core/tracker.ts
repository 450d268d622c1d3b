/** @file The port of a tracker: a place outside the run that shows its metrics. */
import type { MetricLine } from "./monitoring/metrics.ts";

export interface Tracker {
  readonly name: string;
  /** Set if it begins empty each time it is opened, so that it needs every line again. */
  readonly startsOver?: true;
  /** Sends lines in their order. A repeat of lines that arrived changes nothing. Rejects with `tracker-unavailable` if it may help to repeat. */
  send(lines: readonly MetricLine[], signal: AbortSignal): Promise<void>;
  /** The run is over. */
  finish(status: "finished" | "failed", signal: AbortSignal): Promise<void>;
}
