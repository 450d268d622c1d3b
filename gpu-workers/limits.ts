/** @file What ends a wait: a time that counts only from something on, or a signal. */
import { MgrpoError } from "../core/errors.ts";

export interface Limit {
  /** Aborts when the time is over. */
  readonly signal: AbortSignal;
  /** It is needed no more. Returns the seconds that counted. */
  end(): number;
}

/** So many seconds after the promise resolves; none where it rejects. */
export function limitAfter(begun: Promise<unknown>, seconds: number): Limit {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let since: number | undefined;
  let isOver = false;
  const begin = () => {
    if (isOver) return;
    since = performance.now();
    timer = setTimeout(() => late.abort(), Math.max(0, Math.ceil(seconds * 1000)));
    timer.unref();
  };
  begun.then(begin, () => {});
  return {
    signal: late.signal,
    end() {
      isOver = true;
      clearTimeout(timer);
      return since === undefined ? 0 : (performance.now() - since) / 1000;
    },
  };
}

/** As the promise; rejects with `cancelled` when the signal aborts before. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new MgrpoError("cancelled", "nobody waits for it any more"));
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
