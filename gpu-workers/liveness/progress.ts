/**
 * @file Whether this process's engine makes progress. Every call that samples, trains, opens, loads or saves has a time limit. An engine
 * that runs in its own threads ends a call at the limit; engines in the main thread (membership.ts) and Tinker servers do not. A call that is
 * open long after its limit cannot be ended: then the worker sends no more heartbeats and its process ends, so that others take over its work.
 * Heartbeats show that the process is alive; this shows that its engine is.
 */
import type { EngineLimits } from "../../core/ports.ts";

/** Seconds that an engine has after the limit to end a call: a canceled sample may take up to 60 of them to stop. */
const GRACE_SECONDS = 120;

export type EngineWork = "sampling" | "training";

interface PendingEngineCall {
  readonly work: EngineWork;
  /** Monotonic time, in seconds. */
  dueAt: number;
  isCanceled: boolean;
}

export class EngineProgress {
  readonly #limits: EngineLimits;
  readonly #now: () => number;
  readonly #calls = new Set<PendingEngineCall>();

  constructor(limits: EngineLimits, now: () => number = () => performance.now() / 1000) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Whether a call hangs and cannot be ended. Samples may wait while a training call runs: both may share a GPU's thread. */
  get isStalled(): boolean {
    const onTime = [...this.#calls].filter(({ dueAt }) => dueAt >= this.#now());
    const overdue = [...this.#calls].filter(({ dueAt }) => dueAt < this.#now());
    const isTraining = onTime.some(({ work }) => work === "training");
    return overdue.some(({ work }) => work === "training" || !isTraining);
  }

  /** @param signal cancels the call, which then has the grace period to end. */
  async during<T>(work: EngineWork, call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const entry: PendingEngineCall = { work, dueAt: this.#dueAt(work), isCanceled: false };
    const cancel = () => {
      entry.isCanceled = true;
      entry.dueAt = Math.min(entry.dueAt, this.#now() + GRACE_SECONDS);
    };
    this.#calls.add(entry);
    if (signal?.aborted) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await call();
    } finally {
      signal?.removeEventListener("abort", cancel);
      this.#calls.delete(entry);
      if (work === "training") this.#extendOpenCalls();
    }
  }

  /** Extends the deadline of every open call, each of which may have waited for the training call that just ended: a sample begins only now. */
  #extendOpenCalls(): void {
    const grace = this.#now() + GRACE_SECONDS;
    for (const call of this.#calls) {
      const due = call.work === "sampling" && !call.isCanceled ? this.#dueAt("sampling") : grace;
      call.dueAt = Math.max(call.dueAt, due);
    }
  }

  #dueAt(work: EngineWork): number {
    const { turnSeconds, trainingSeconds } = this.#limits;
    return this.#now() + GRACE_SECONDS + (work === "sampling" ? turnSeconds : trainingSeconds);
  }
}
