/**
 * @file Where a worker's time goes: the time in which at least one engine call is in flight, for sampling, for
 * training, and for either of them. Seconds go into manifests; the intervals become telemetry (step-telemetry.ts).
 * liveness/progress.ts decides whether a call hangs.
 */
import type { TurnTotals, WorkerSeconds } from "../core/contracts/checkpoint.ts";
import type { Conversation } from "../core/contracts/conversation.ts";
import type { BusyInterval, StepTelemetry, TurnLatency } from "../core/contracts/telemetry.ts";
import type { EngineLimits, Sampler, Trainer } from "../core/ports.ts";
import { Intervals } from "./intervals.ts";
import { withTurns } from "./latencies.ts";
import { EngineProgress, type EngineWork } from "./liveness/progress.ts";

/** What a training step needs from a trainer. */
export type GradientTrainer = Pick<Trainer, "logProbs" | "forwardBackward" | "optimizerStep" | "gradientNorm">;

export interface BusyMeter {
  /** Whether an engine call hangs and cannot be ended. */
  readonly isStalled: boolean;
  /** Runs a call that opens, loads or saves. It has the time limit of a training call, but counts as neither training nor sampling time. */
  watch<T>(call: () => Promise<T>): Promise<T>;
  /** The same trainer, metered. */
  trainer(trainer: GradientTrainer): GradientTrainer;
  /** The same sampler, metered. */
  sampler(sampler: Sampler): Sampler;
  /** The seconds since `takeSeconds` was last called, and the turns counted since then. */
  takeSeconds(): WorkerSeconds;
  /** Counts the turns of a training conversation. */
  addTurns(conversation: Conversation, latencies: readonly TurnLatency[]): void;
  /** Intervals with an engine call in flight, since `takeActivity` was last called. One that is still open is split here. */
  takeActivity(): Pick<StepTelemetry, "sampling" | "training">;
}

export interface BusyMeterOptions {
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
  /** Absent: only a canceled call can count as stalled. */
  readonly limits?: EngineLimits;
  /** Seconds of a monotonic clock, for the limits. */
  readonly monotonic?: () => number;
}

export function createBusyMeter({
  now = sinceEpoch,
  limits = { turnSeconds: Number.POSITIVE_INFINITY, trainingSeconds: Number.POSITIVE_INFINITY },
  monotonic,
}: BusyMeterOptions = {}): BusyMeter {
  const progress = new EngineProgress(limits, monotonic);
  const intervals = { sampling: new Intervals(), training: new Intervals() };
  const sampling = createBusyTimer(now, (interval) => intervals.sampling.add(interval));
  const training = createBusyTimer(now, (interval) => intervals.training.add(interval));
  const either = createBusyTimer(now);
  let since = now();
  let turns: TurnTotals | undefined;
  const timers = { sampling, training };
  const during = <T>(kind: EngineWork, work: () => Promise<T>, signal?: AbortSignal) =>
    either.during(() => timers[kind].during(() => progress.during(kind, work, signal)));

  return {
    get isStalled() {
      return progress.isStalled;
    },
    watch: (call) => progress.during("training", call),
    trainer: (trainer) => ({
      logProbs: (...args) => during("training", () => trainer.logProbs(...args)),
      forwardBackward: (...args) => during("training", () => trainer.forwardBackward(...args)),
      optimizerStep: (...args) => during("training", () => trainer.optimizerStep(...args)),
      ...(trainer.gradientNorm && {
        gradientNorm: () => during("training", async () => (await trainer.gradientNorm?.()) ?? 0),
      }),
    }),
    sampler: (sampler) => ({
      sample: (request, signal) => during("sampling", () => sampler.sample(request, signal), signal),
      release: (sequence) => sampler.release(sequence),
      close: () => sampler.close(),
    }),
    takeSeconds() {
      const elapsed = (now() - since) / 1000;
      since = now();
      const seconds = {
        sampling: sampling.takeSeconds(),
        training: training.takeSeconds(),
        waiting: Math.max(0, elapsed - either.takeSeconds()),
        ...(turns && { turns }),
      };
      turns = undefined;
      return seconds;
    },
    addTurns(conversation, latencies) {
      turns = withTurns(turns, conversation, latencies);
    },
    takeActivity() {
      sampling.split();
      training.split();
      return { sampling: intervals.sampling.take(), training: intervals.training.take() };
    },
  };
}

/** Measures the time in which at least one piece of work is in flight; overlapping work counts once. */
export interface BusyTimer {
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Busy seconds since `takeSeconds` was last called. An interval that is still open is split here. */
  takeSeconds(): number;
  /** Ends the open interval, if there is one, and begins another. */
  split(): void;
}

/** Calls `onInterval` with each interval as it ends or is split. */
export function createBusyTimer(now = sinceEpoch, onInterval: (interval: BusyInterval) => void = () => {}): BusyTimer {
  const state = { inFlight: 0, start: 0, milliseconds: 0 };
  const endInterval = () => {
    const end = now();
    state.milliseconds += end - state.start;
    onInterval([state.start, end]);
    state.start = end;
  };
  return {
    async during(work) {
      if (state.inFlight++ === 0) state.start = now();
      try {
        return await work();
      } finally {
        if (--state.inFlight === 0) endInterval();
      }
    },
    split() {
      if (state.inFlight > 0) endInterval();
    },
    takeSeconds() {
      if (state.inFlight > 0) endInterval();
      const seconds = state.milliseconds / 1000;
      state.milliseconds = 0;
      return seconds;
    },
  };
}

function sinceEpoch(): number {
  return performance.timeOrigin + performance.now();
}
