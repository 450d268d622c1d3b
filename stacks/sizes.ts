/**
 * @file What each function is given, and the objects whose events wake it, as plain data: stacks/functions.ts deploys it, bench/simulate
 * counts with it.
 */

interface Given {
  /** Its time limit. */
  readonly seconds: number;
  /** More memory is more processor. */
  readonly megabytes: number;
}

interface Woken extends Given {
  /** Of the key; `*` spans slashes. */
  readonly pattern: string;
  /** Events in one call, at most. */
  readonly batch: number;
}

/** Called directly. */
export const START_RUN = { seconds: 60, megabytes: 1024 } satisfies Given;

/** By the file of the handler. */
export const WOKEN = {
  tick: { seconds: 60, megabytes: 1024, pattern: "runs/*/manifests/*.json", batch: 1 },
  // Scores of one group that come together share a write: batches make writes fewer. A judge is asked four times, two minutes each at most.
  "score-rollout": { seconds: 540, megabytes: 1024, pattern: "runs/*/outcomes/*.json", batch: 10 },
  "enqueue-evaluation": { seconds: 30, megabytes: 512, pattern: "runs/*/teams/*.json", batch: 1 },
  "record-evaluation": { seconds: 30, megabytes: 512, pattern: "runs/*/evaluations/*/result.json", batch: 1 },
} satisfies Readonly<Record<string, Woken>>;

/** Wakes tick. */
export const CLOCK = { schedule: "rate(1 minute)", seconds: 60 } as const;
