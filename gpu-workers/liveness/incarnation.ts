/**
 * @file One incarnation of a worker: its loops, started together, stopped together.
 *
 *     registered ──> heartbeat and loops, until one of
 *        stop signal      drains: no new work, what runs ends or is given back       `stopped`
 *        nothing to do    the same                                                  `over`
 *        declared dead    everything is dropped; the process registers a new one     `lost`
 *        a loop rejected  the error goes out, nothing is given back: a crash, which others see as a death
 */
import { isMgrpoError } from "../../core/errors.ts";
import type { Log } from "../log.ts";
import type { Membership } from "./membership.ts";

export type End = "stopped" | "over" | "lost";

export interface Incarnation {
  readonly membership: Membership;
  /** Starts the loops; they work until the signal aborts, and may then reject with `cancelled`. */
  readonly loops: (signal: AbortSignal) => readonly Promise<void>[];
  /** Resolves when there is nothing more to do; like a loop when the signal aborts. */
  readonly over: (signal: AbortSignal) => Promise<void>;
  readonly stop: AbortSignal;
  /** Rejects when something outside the loops makes it impossible to go on. */
  readonly crashed: Promise<never>;
  /** Ends work for others, before the loops end. */
  readonly drain: () => Promise<unknown>;
  readonly log: Log;
}

export async function runIncarnation({
  membership,
  loops,
  over,
  stop,
  crashed,
  drain,
  log,
}: Incarnation): Promise<End> {
  const ending = new AbortController();
  const silence = new AbortController();
  const unlessEnding = (error: unknown) => {
    if (!(ending.signal.aborted && isMgrpoError(error, "cancelled"))) throw error;
  };
  try {
    const beating = membership.beat(silence.signal);
    const done = over(ending.signal);
    const working = Promise.all([done, ...loops(ending.signal)].map((loop) => loop.catch(unlessEnding)));
    const stopped = whenAborted(stop).then((): End => "stopped");
    const end = await Promise.race([beating, stopped, crashed, failed(working), done.then((): End => "over")]);
    log.info("ending", { worker: membership.id, because: end });
    if (end !== "lost") {
      await membership.drain();
      await drain();
    }
    ending.abort();
    await working;
    await membership.leave();
    silence.abort();
    await beating;
    return end;
  } finally {
    ending.abort();
    silence.abort();
  }
}

/** Only the promise's rejection. */
function failed(promise: Promise<unknown>): Promise<never> {
  return promise.then(() => new Promise<never>(() => {}));
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
