/**
 * @file One incarnation of a worker: its loops start together and stop together.
 *
 *     registered ──> heartbeat and loops, until one of
 *        stop signal      drains: takes no new work, finishes or returns the rest     `stopped`
 *        nothing to do    the same                                                   `over`
 *        declared dead    drops everything; the process registers a new incarnation  `lost`
 *        a loop rejects   rethrows and does not leave: a crash, which others notice when its lease expires
 *
 * A loop that rejects while the others end, or an engine call that hangs then, is a crash too.
 */
import { linkSignals } from "../../core/any-signal.ts";
import { isMgrpoError } from "../../core/errors.ts";
import type { Log } from "../log.ts";
import type { Membership } from "./membership.ts";

export type IncarnationEnd = "stopped" | "over" | "lost";

export interface Incarnation {
  readonly membership: Membership;
  /** Starts the loops. They work until the signal aborts and may then reject with `canceled`. */
  readonly loops: (signal: AbortSignal) => readonly Promise<void>[];
  /** Resolves when there is nothing more to do. Behaves like a loop when the signal aborts. */
  readonly over: (signal: AbortSignal) => Promise<void>;
  readonly stop: AbortSignal;
  /** Rejects on a fatal error outside the loops. */
  readonly crashed: Promise<never>;
  /** Finishes work for other workers, before the loops end. */
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
}: Incarnation): Promise<IncarnationEnd> {
  const ending = new AbortController();
  const heartbeatStop = new AbortController();
  // `stop` outlives this incarnation, and in a fleet its run: a listener left on it would keep them in memory.
  const stopping = linkSignals(stop);
  const ignoreCanceled = (error: unknown) => {
    if (!(ending.signal.aborted && isMgrpoError(error, "canceled"))) throw error;
  };
  const finish = async (end: IncarnationEnd, working: Promise<unknown>, beating: Promise<unknown>) => {
    if (end !== "lost") {
      await membership.drain();
      await drain();
    }
    ending.abort();
    await working;
    // A heartbeat between the read and the write of `leave` would make that write fail.
    heartbeatStop.abort();
    await beating;
    await membership.leave();
  };
  try {
    const beating = membership.beat(heartbeatStop.signal);
    const done = over(ending.signal);
    const working = Promise.all([done, ...loops(ending.signal)].map((loop) => loop.catch(ignoreCanceled)));
    const stopped = whenAborted(stopping.signal).then((): IncarnationEnd => "stopped");
    const fatal = Promise.race([crashed, rejectionOf(working), rejectionOf(beating)]);
    const end = await Promise.race([beating, stopped, fatal, done.then((): IncarnationEnd => "over")]);
    log.info("ending", { worker: membership.id, because: end });
    // An engine call that hangs would hold the loops forever. Heartbeats notice it, but a worker that is declared dead sends none.
    const stalled = rejectionOf(membership.watchEngine(heartbeatStop.signal));
    await Promise.race([fatal, stalled, finish(end, working, beating)]);
    return end;
  } finally {
    stopping.unlink();
    ending.abort();
    heartbeatStop.abort();
  }
}

/** Never resolves; rejects when the promise does. */
function rejectionOf(promise: Promise<unknown>): Promise<never> {
  return promise.then(() => new Promise<never>(() => {}));
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
