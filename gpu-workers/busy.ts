/**
 * @file Where a worker's time goes: the union of the intervals in which at least one call of the engine is in flight, for sampling,
 * for training, and for either. Seconds go into manifests; the intervals themselves only where a bench asks for them.
 */
import type { WorkerSeconds } from "../core/contracts/checkpoint.ts";
import type { Sampler } from "../core/ports.ts";

/** Start and end, in milliseconds since the epoch. */
export type Interval = readonly [number, number];

export interface BusyMeter {
  training<T>(work: () => Promise<T>): Promise<T>;
  /** The same sampler, counted. */
  sampler(sampler: Sampler): Sampler;
  /** Seconds since the last call. */
  takeSeconds(): WorkerSeconds;
  /** Intervals with any engine call since the last call. */
  takeIntervals(): Interval[];
}

export function createBusyMeter(now: () => number = () => performance.timeOrigin + performance.now()): BusyMeter {
  const sampling = createUnion(now);
  const training = createUnion(now);
  const either = createUnion(now);
  let since = now();
  let intervals: Interval[] = [];

  async function during<T>(kind: Union, work: () => Promise<T>): Promise<T> {
    kind.enter();
    either.enter();
    try {
      return await work();
    } finally {
      kind.leave();
      either.leave();
    }
  }

  return {
    training: (work) => during(training, work),
    sampler: (sampler) => ({
      sample: (request, signal) => during(sampling, () => sampler.sample(request, signal)),
      release: (sequence) => sampler.release(sequence),
      close: () => sampler.close(),
    }),
    takeSeconds() {
      const elapsed = now() - since;
      since = now();
      const busy = either.take();
      intervals.push(...busy);
      const seconds = (spans: readonly Interval[]) => spans.reduce((sum, [start, end]) => sum + end - start, 0) / 1000;
      return {
        sampling: seconds(sampling.take()),
        training: seconds(training.take()),
        waiting: Math.max(0, elapsed / 1000 - seconds(busy)),
      };
    },
    takeIntervals() {
      const taken = intervals;
      intervals = [];
      return taken;
    },
  };
}

interface Union {
  enter(): void;
  leave(): void;
  /** Closed intervals so far; one still open is cut here and goes on. */
  take(): Interval[];
}

function createUnion(now: () => number): Union {
  let depth = 0;
  let start = 0;
  let spans: Interval[] = [];
  return {
    enter() {
      if (depth++ === 0) start = now();
    },
    leave() {
      if (--depth === 0) spans.push([start, now()]);
    },
    take() {
      if (depth > 0) {
        spans.push([start, now()]);
        start = now();
      }
      const taken = spans;
      spans = [];
      return taken;
    },
  };
}
