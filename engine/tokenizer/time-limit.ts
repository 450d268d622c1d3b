/** @file Runs a checkpoint's code (its chat template) under a time limit: an infinite loop must not block the worker's heartbeats. */
import { createContext, Script } from "node:vm";

const script = new Script("work()");
const context: { work: () => unknown } = { work: () => undefined };
createContext(context);

/** Well below the time after which a worker's lease expires. */
export const TEMPLATE_MILLISECONDS = 5000;

/** Calls the function, and throws if it takes longer. Its own errors pass through. */
export function withinMilliseconds<T>(milliseconds: number, work: () => T): T {
  context.work = work;
  try {
    return script.runInContext(context, { timeout: milliseconds }) as T;
  } catch (error) {
    if ((error as { code?: string } | undefined)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    throw new Error(`it took more than ${milliseconds / 1000} seconds: it has an infinite loop or does too much work`, {
      cause: error,
    });
  }
}
