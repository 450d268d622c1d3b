/**
 * @file Delivers "Object Created" events to the handlers: at least once, in any order, a few at a time per queue (the objects of one kind of
 * one run), so that a slow judge in one run delays neither that run's manifests nor other runs. A handler that throws is called again, with
 * backoff. After the last attempt the event stays in the journal until the next start; meanwhile the scheduled tick
 * repairs what the event left undone.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import pLimit, { type LimitFunction } from "p-limit";
import type { ObjectCreated } from "../../core/contracts/messages.ts";
import type { PendingEvent } from "./journal.ts";

const CALLS_PER_QUEUE = 8;
const MAX_ATTEMPTS = 20;
const MIN_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;

/** For tests: the delay in seconds of each delivery of a key's event. [] drops it, [0, 0] duplicates it, [2] delays it. */
export type DeliverySchedule = (key: string) => readonly number[];

export interface DispatcherOptions {
  readonly handle: (event: ObjectCreated) => Promise<void>;
  readonly handled: (id: number) => void;
  readonly deliveries: DeliverySchedule;
  readonly report: (line: string) => void;
}

export interface Dispatcher {
  enqueue(event: PendingEvent): void;
  /** Starts no more calls; waits for those in progress. */
  close(): Promise<void>;
}

export function openDispatcher(options: DispatcherOptions): Dispatcher {
  const queues = new DeliveryQueues(options);
  return {
    enqueue: (event) => void queues.deliverAll(event),
    close: () => queues.close(),
  };
}

class DeliveryQueues {
  readonly #options: DispatcherOptions;
  readonly #closing = new AbortController();
  /** By name; absent while a queue has no calls. */
  readonly #queues = new Map<string, LimitFunction>();
  readonly #running = new Set<Promise<unknown>>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
    // Every waiting delivery adds a listener.
    setMaxListeners(0, this.#closing.signal);
  }

  async deliverAll(event: PendingEvent): Promise<void> {
    const { deliveries, handled, report } = this.#options;
    try {
      const delivered = await Promise.all(deliveries(event.key).map((delay) => this.#deliver(event, delay)));
      if (delivered.every(Boolean)) handled(event.id);
    } catch (error) {
      // An event whose delivery `close` interrupts stays in the journal.
      if (!this.#closing.signal.aborted) report(`event of ${event.key}: ${(error as Error).message}`);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const queue of this.#queues.values()) queue.clearQueue();
    await Promise.all(this.#running);
    // Lets the calls that just succeeded reach the journal.
    await pause(0);
  }

  async #inQueue<T>(key: string, call: () => Promise<T>): Promise<T> {
    const name = queueOf(key);
    const queue = this.#queues.get(name) ?? pLimit(CALLS_PER_QUEUE);
    this.#queues.set(name, queue);
    try {
      return await queue(call);
    } finally {
      if (queue.activeCount + queue.pendingCount === 0) this.#queues.delete(name);
    }
  }

  /**
   * Waits for: its delay, a free slot of its queue, the handler, the backoff. Unblocked by: success, the last attempt,
   * or close.
   */
  async #deliver(event: PendingEvent, delaySeconds: number): Promise<boolean> {
    const { signal } = this.#closing;
    if (delaySeconds > 0) await pause(delaySeconds * 1000, undefined, { signal });
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      // An event may still arrive after `close`: the servers stop later.
      signal.throwIfAborted();
      if (await this.#inQueue(event.key, () => this.#call(event, attempt))) return true;
      const backoff = Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** (attempt - 1));
      await pause(backoff * (0.5 + Math.random() / 2), undefined, { signal });
    }
    return false;
  }

  /** True when the handler succeeded. */
  async #call(event: PendingEvent, attempt: number): Promise<boolean> {
    // A call leaves its queue before it starts: `close` may come in between.
    this.#closing.signal.throwIfAborted();
    const call = this.#options.handle(objectCreated(event)).then(
      () => undefined,
      (error: unknown) => error ?? new Error("failed"),
    );
    this.#running.add(call);
    const failure = await call.finally(() => this.#running.delete(call));
    if (failure !== undefined && attempt === MAX_ATTEMPTS)
      this.#options.report(
        `event of ${event.key}: not handled in ${MAX_ATTEMPTS} attempts: ${(failure as Error).message}`,
      );
    return failure === undefined;
  }
}

/** `runs/<run>/<kind>`. */
const queueOf = (key: string) => key.split("/", 3).join("/");

function objectCreated({ bucket, key }: PendingEvent): ObjectCreated {
  return {
    "detail-type": "Object Created",
    source: "aws.s3",
    detail: { bucket: { name: bucket }, object: { key } },
  };
}
