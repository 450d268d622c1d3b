/**
 * @file Delivers "Object Created" to the handlers: at least once, in any order, a few at a time. A handler that throws is asked again,
 * later and later; after the last try the event waits in the journal for the next start, and the clock repairs meanwhile.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { ObjectCreated } from "../../core/contracts/messages.ts";
import type { PendingEvent } from "./journal.ts";

const AT_ONCE = 8;
const TRIES = 20;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

/** For tests: after how many seconds each delivery of a key's event happens. [] drops it, [0, 0] doubles it, [2] delays it. */
export type DeliverySchedule = (key: string) => readonly number[];

export interface DispatcherOptions {
  readonly handle: (event: ObjectCreated) => Promise<void>;
  readonly handled: (id: number) => void;
  readonly deliveries: DeliverySchedule;
  readonly report: (line: string) => void;
}

export interface Dispatcher {
  enqueue(pending: PendingEvent): void;
  /** Starts nothing more; waits for what is being handled. */
  close(): Promise<void>;
}

export function openDispatcher({ handle, handled, deliveries, report }: DispatcherOptions): Dispatcher {
  const closing = new AbortController();
  // Every event that waits listens.
  setMaxListeners(0, closing.signal);
  const running = new Set<Promise<void>>();
  const queue: (() => Promise<void>)[] = [];
  let busy = 0;

  /** Runs one handler call when its turn comes; true when it succeeded. */
  const turn = (event: ObjectCreated, attempt: number) =>
    new Promise<boolean>((resolve) => {
      queue.push(async () => {
        const failure = await handle(event).then(
          () => undefined,
          (error: unknown) => error ?? new Error("failed"),
        );
        if (failure !== undefined && attempt === TRIES)
          report(`event of ${event.detail.object.key}: not handled in ${TRIES} tries: ${(failure as Error).message}`);
        resolve(failure === undefined);
      });
      next();
    });

  function next() {
    if (busy >= AT_ONCE || closing.signal.aborted) return;
    const work = queue.shift();
    if (!work) return;
    busy += 1;
    const done = work().finally(() => {
      busy -= 1;
      running.delete(done);
      next();
    });
    running.add(done);
  }

  /** Waits for: its delay, a free place, the handler. Unblocked by success, the last try, or close. */
  async function deliver(pending: PendingEvent, delaySeconds: number): Promise<boolean> {
    if (delaySeconds > 0) await pause(delaySeconds * 1000, undefined, { signal: closing.signal });
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      if (await turn(eventOf(pending), attempt)) return true;
      const wait = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
      await pause(wait * (0.5 + Math.random() / 2), undefined, { signal: closing.signal });
    }
    return false;
  }

  return {
    enqueue(pending) {
      const all = deliveries(pending.key).map((delay) => deliver(pending, delay));
      Promise.all(all)
        .then((done) => {
          if (done.every(Boolean)) handled(pending.id);
        })
        .catch((error: Error) => {
          // Not handled before the end: the journal keeps it for the next start.
          if (!closing.signal.aborted) report(`event of ${pending.key}: ${error.message}`);
        });
    },
    async close() {
      closing.abort();
      await Promise.all(running);
      // Lets what just succeeded reach the journal.
      await pause(0);
    },
  };
}

function eventOf({ bucket, key }: PendingEvent): ObjectCreated {
  return {
    "detail-type": "Object Created",
    source: "aws.s3",
    detail: { bucket: { name: bucket }, object: { key } },
  };
}
