/**
 * @file Where a worker's time goes: the union of the intervals in which at least one call of the engine is in flight, for sampling,
 * for training, and for either. Seconds go into manifests; the intervals themselves only where a bench asks for them.
 */
import type { WorkerSeconds } from "../core/contracts/checkpoint.ts";
import type { Sampler, Trainer } from "../core/ports.ts";

/** Start and end, in milliseconds since the epoch. */
export type BusyInterval = readonly [number, number];

/** What a training step asks of a trainer. */
export type GradientTrainer = Pick<Trainer, "logProbs" | "forwardBackward" | "optimizerStep">;

export interface BusyMeter {
  training<T>(work: () => Promise<T>): Promise<T>;
  /** The same trainer, counted. */
  trainer(trainer: GradientTrainer): GradientTrainer;
  /** The same sampler, counted. */
  sampler(sampler: Sampler): Sampler;
  /** Seconds since the last call. */
  takeSeconds(): WorkerSeconds;
  /** Intervals with any engine call since the last call; none unless they are kept. */
  takeIntervals(): BusyInterval[];
}

export function createBusyMeter({ keepsIntervals = false, now = sinceEpoch } = {}): BusyMeter {
  const intervals: BusyInterval[] = [];
  const sampling = createUnion(now, () => {});
  const training = createUnion(now, () => {});
  const either = createUnion(now, (interval) => {
    if (keepsIntervals) intervals.push(interval);
  });
  let since = now();

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
    trainer: (trainer) => ({
      logProbs: (...asked) => during(training, () => trainer.logProbs(...asked)),
      forwardBackward: (...batch) => during(training, () => trainer.forwardBackward(...batch)),
      optimizerStep: (...config) => during(training, () => trainer.optimizerStep(...config)),
    }),
    sampler: (sampler) => ({
      sample: (request, signal) => during(sampling, () => sampler.sample(request, signal)),
      release: (sequence) => sampler.release(sequence),
      close: () => sampler.close(),
    }),
    takeSeconds() {
      const elapsed = (now() - since) / 1000;
      since = now();
      return {
        sampling: sampling.takeSeconds(),
        training: training.takeSeconds(),
        waiting: Math.max(0, elapsed - either.takeSeconds()),
      };
    },
    takeIntervals: () => intervals.splice(0),
  };
}

function sinceEpoch(): number {
  return performance.timeOrigin + performance.now();
}

interface Union {
  enter(): void;
  leave(): void;
  /** Since the last call; an interval that is still open is cut here and goes on. */
  takeSeconds(): number;
}

/** `closed` is told of each interval that ends. */
function createUnion(now: () => number, closed: (interval: BusyInterval) => void): Union {
  let [depth, start, milliseconds] = [0, 0, 0];
  const close = () => {
    const end = now();
    milliseconds += end - start;
    closed([start, end]);
    start = end;
  };
  return {
    enter() {
      if (depth++ === 0) start = now();
    },
    leave() {
      if (--depth === 0) close();
    },
    takeSeconds() {
      if (depth > 0) close();
      const taken = milliseconds / 1000;
      milliseconds = 0;
      return taken;
    },
  };
}
