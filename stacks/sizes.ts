/**
 * @file The size of each function, the objects whose events call it, and the schedule of tick, as plain data; stacks/ deploys them and
 * bench/simulate computes with them.
 */

export interface FunctionSize {
  /** The time limit. */
  readonly seconds: number;
  /** Lambda grants CPU in proportion to memory. */
  readonly megabytes: number;
}

interface EventFunctionSize extends FunctionSize {
  /** Matches the object's key; `*` spans slashes. */
  readonly pattern: string;
  /** Maximum number of events in one call. */
  readonly batch: number;
}

/** Called directly. */
export const START_RUN = { seconds: 60, megabytes: 1024 } satisfies FunctionSize;

/** Keyed by the name of the handler's file. */
export const EVENT_FUNCTIONS = {
  tick: { seconds: 60, megabytes: 1024, pattern: "runs/*/manifests/*.json", batch: 1 },
  // Scores of one group in one batch share a write. The limit exceeds that of a verdict, `limits.verdictSeconds`, which is at most 480.
  "score-rollout": { seconds: 540, megabytes: 1024, pattern: "runs/*/outcomes/*.json", batch: 10 },
  "enqueue-evaluation": { seconds: 30, megabytes: 512, pattern: "runs/*/teams/*.json", batch: 1 },
  "record-evaluation": { seconds: 30, megabytes: 512, pattern: "runs/*/evaluations/*/result.json", batch: 1 },
} satisfies Readonly<Record<string, EventFunctionSize>>;

/** Calls tick. */
export const SCHEDULE = { rate: "rate(1 minute)", seconds: 60 } as const;
