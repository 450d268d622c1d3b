/** @file Runs a checkpoint's code (its chat template) under a time limit: an infinite loop must not block the worker's heartbeats. */
import { createContext, Script } from "node:vm";

const script = new Script("work()");
const context: { work: () => unknown } = { work: () => undefined };
createContext(context);

/** A rendering takes a few milliseconds, and one of 1,000 messages 0.2 seconds. Both tries together take a fifth of the default lease. */
export const TEMPLATE_MILLISECONDS = 1000;
const TRIES = 2;

/** The function exceeded its time limit in every try. */
export class TimeLimitExceeded extends Error {}

/**
 * Calls the function, again if it takes longer: a process that was stopped meanwhile misses the limit through no fault of the function.
 * Its own errors pass through.
 */
export function withinMilliseconds<T>(milliseconds: number, work: () => T): T {
  for (let left = TRIES; ; left--) {
    context.work = work;
    try {
      return script.runInContext(context, { timeout: milliseconds }) as T;
    } catch (cause) {
      if ((cause as { code?: string } | undefined)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw cause;
      if (left > 1) continue;
      const why = `it took more than ${milliseconds / 1000} s: it has an infinite loop or does too much work`;
      throw new TimeLimitExceeded(why, { cause });
    }
  }
}
