/** @file Ways to end a wait: after some time, after some time counted from an event, or when a signal aborts. */
import { MgrpoError } from "../core/errors.ts";

/** The longest wait of a Node.js timer, in milliseconds; a longer one fires at once. */
export const LONGEST_TIMER = 2 ** 31 - 1;

export interface TimeLimit {
  /** Aborts when the time is up. */
  readonly signal: AbortSignal;
  /** Stops the clock. Returns the seconds since it started. */
  end(): number;
}

/** Expires `seconds` after `start` resolves, but after 24.8 days at the latest; never if it rejects. */
export function timeLimitAfter(start: Promise<unknown>, seconds: number): TimeLimit {
  const expired = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let since: number | undefined;
  let isOver = false;
  const begin = () => {
    if (isOver) return;
    since = performance.now();
    timer = setTimeout(() => expired.abort(), Math.min(Math.max(0, Math.ceil(seconds * 1000)), LONGEST_TIMER));
    timer.unref();
  };
  start.then(begin, () => {});
  return {
    signal: expired.signal,
    end() {
      isOver = true;
      clearTimeout(timer);
      return since === undefined ? 0 : (performance.now() - since) / 1000;
    },
  };
}

/** The value, or undefined if it takes longer than `seconds`. */
export async function within<T>(value: Promise<T>, seconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), seconds * 1000);
  });
  return Promise.race([value, timeout]).finally(() => clearTimeout(timer));
}

/** Settles as the work does. If it takes longer, its signal aborts, and the promise rejects with `late()`. */
export async function withinSeconds<T>(
  seconds: number,
  late: () => MgrpoError,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = timeLimitAfter(Promise.resolve(), seconds);
  try {
    return await cancelable(work(limit.signal), limit.signal);
  } catch (error) {
    throw limit.signal.aborted ? late() : error;
  } finally {
    limit.end();
  }
}

/** Settles as the promise does, or rejects with `canceled` when the signal aborts first. */
export function cancelable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new MgrpoError("canceled", "the wait was canceled"));
    // Before the check of the signal: otherwise a rejection of the promise could stay unhandled.
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
  });
}
