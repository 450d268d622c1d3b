/**
 * @file Virtual time for a whole process: replaces timers, `Date.now`, `performance.now` and AbortSignal timeouts, and jumps to the next timer
 * as soon as nothing is left to do. Code in the process must wait only for timers and promises, never for the network or a disk.
 */
import { createRequire, syncBuiltinESMExports } from "node:module";
import { MgrpoError } from "../../core/errors.ts";

export interface VirtualTime {
  /** Seconds since installation. */
  now(): number;
  /** Advances time until the promise settles. Rejects with its error, or with `deadline` if no timer is left. */
  run<T>(until: Promise<T>): Promise<T>;
}

/** `Date.now()` at installation: arbitrary and constant. */
const EPOCH = Date.UTC(2026, 0, 1);

interface Timer {
  /** Milliseconds. */
  readonly at: number;
  /** Timers due at the same moment fire in order of creation. */
  readonly order: number;
  fire: (() => void) | undefined;
}

type Callback = (...args: unknown[]) => void;

/** Permanent: this process never returns to real time. */
export function installVirtualTime(): VirtualTime {
  const time = new Timeline();
  replaceTimers(time);
  replaceClocks(time);
  replaceTimeouts(time);
  return time;
}

class Timeline implements VirtualTime {
  readonly #timers = new TimerQueue();
  #count = 0;
  /** Milliseconds since installation. */
  milliseconds = 0;

  now(): number {
    return this.milliseconds / 1000;
  }

  after(milliseconds: number, fire: () => void): Timer {
    const delay = Math.max(1, Math.ceil(milliseconds || 0));
    const timer: Timer = { at: this.milliseconds + delay, order: this.#count++, fire };
    this.#timers.push(timer);
    return timer;
  }

  async run<T>(until: Promise<T>): Promise<T> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    until.then(end, end);
    for (;;) {
      await this.#settled();
      if (isOver) return until;
      const first = this.#timers.pop();
      if (!first) throw new MgrpoError("deadline", `the simulation has no timer left after ${this.now()} s`);
      this.milliseconds = first.at;
      for (let timer: Timer | undefined = first; timer; timer = this.#timers.pop(first.at)) timer.fire?.();
    }
  }

  /** Resolves when every promise that can settle at this moment has: promise callbacks run before the next immediate. */
  #settled(): Promise<void> {
    return new Promise((resolve) => setImmediate(() => setImmediate(() => resolve())));
  }
}

function replaceTimers(time: Timeline): void {
  const clear = (handle: unknown) => {
    if (handle instanceof Handle) handle.clear();
  };
  Object.assign(globalThis, {
    setTimeout: (callback: Callback, milliseconds = 0, ...args: unknown[]) => {
      const timer = time.after(milliseconds, () => callback(...args));
      return new Handle(() => timer);
    },
    setInterval: (callback: Callback, milliseconds = 0, ...args: unknown[]) => {
      const repeat = (): Timer =>
        time.after(milliseconds, () => {
          current = repeat();
          callback(...args);
        });
      let current = repeat();
      return new Handle(() => current);
    },
    clearTimeout: clear,
    clearInterval: clear,
  });
}

function replaceClocks(time: Timeline): void {
  Object.defineProperty(performance, "now", { value: () => time.milliseconds });
  Date.now = () => EPOCH + time.milliseconds;
}

function replaceTimeouts(time: Timeline): void {
  AbortSignal.timeout = (milliseconds) => {
    const controller = new AbortController();
    time.after(milliseconds, () => controller.abort(new DOMException("timed out", "TimeoutError")));
    return controller.signal;
  };
  const promises = createRequire(import.meta.url)("node:timers/promises") as { setTimeout: unknown };
  promises.setTimeout = (milliseconds = 0, value?: unknown, { signal }: { signal?: AbortSignal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const abort = () => {
        timer.fire = undefined;
        reject(signal?.reason);
      };
      const timer = time.after(milliseconds, () => {
        signal?.removeEventListener("abort", abort);
        resolve(value);
      });
      signal?.addEventListener("abort", abort, { once: true });
    });
  syncBuiltinESMExports();
}

/** The result of a timer function: the part of Node's Timeout that callers use. */
class Handle {
  readonly #timer: () => Timer;

  constructor(timer: () => Timer) {
    this.#timer = timer;
  }

  clear(): void {
    this.#timer().fire = undefined;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }
}

/** A binary heap with the earliest timer first. */
class TimerQueue {
  readonly #heap: Timer[] = [];

  push(timer: Timer): void {
    let i = this.#heap.push(timer) - 1;
    for (let up = (i - 1) >> 1; i > 0 && this.#isBefore(i, up); i = up, up = (i - 1) >> 1) this.#swap(i, up);
  }

  /** The earliest timer, if it is not after `latest`. */
  pop(latest = Number.POSITIVE_INFINITY): Timer | undefined {
    const [first] = this.#heap;
    if (!first || first.at > latest) return undefined;
    this.#swap(0, this.#heap.length - 1);
    this.#heap.pop();
    this.#sink();
    return first;
  }

  /** Sifts the root down. */
  #sink(): void {
    for (let i = 0; ; ) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2])
        if (child < this.#heap.length && this.#isBefore(child, least)) least = child;
      if (least === i) return;
      this.#swap(i, least);
      i = least;
    }
  }

  #at(i: number): Timer {
    return this.#heap[i] as Timer;
  }

  #isBefore(i: number, j: number): boolean {
    const [a, b] = [this.#at(i), this.#at(j)];
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  #swap(i: number, j: number): void {
    [this.#heap[i], this.#heap[j]] = [this.#at(j), this.#at(i)];
  }
}
