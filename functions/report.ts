/** @file A function's failures: one structured line each. What another delivery may mend is thrown on; what it cannot is done with. */
import { isMgrpoError } from "../core/errors.ts";
import type { Pulse } from "./protocol/pulse.ts";
import type { Move } from "./protocol/scaling.ts";

/** Takes one line of JSON. */
export type Log = (line: string) => void;

/** Whether another delivery may help. Foreign errors are faults of ours: they are tried again until the queue's limit. */
const isRetryable = (error: unknown) => !isMgrpoError(error) || error.retryable;

/** One line that says what failed, where, and whether it will be tried again. */
export function describe(what: string, error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const known = isMgrpoError(error) ? { code: error.code, evidence: error.evidence } : { code: "fault" };
  return JSON.stringify({ level: "error", function: what, ...known, retryable: isRetryable(error), message });
}

/** Runs it; a failure is logged and thrown on. */
export async function logAndRethrow(what: string, log: Log, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    log(describe(what, error));
    throw error;
  }
}

/** The same, but what cannot be mended by another delivery is done with. */
export async function settle(what: string, log: Log, run: () => Promise<unknown>): Promise<void> {
  await logAndRethrow(what, log, run).catch((error: unknown) => {
    if (isRetryable(error)) throw error;
  });
}

/** One line that the alarms' metrics are read from. Silent while nothing runs: a metric costs by the hour in which it is told. */
export function describePulse({ running, unserved, spent }: Pulse): string | undefined {
  return running > 0 ? JSON.stringify({ level: "info", what: "pulse", running, unserved, spent }) : undefined;
}

/** One line per fleet whose capacity tick changed. */
export function describeMove(move: Move): string {
  return JSON.stringify({ level: "info", what: "fleet", ...move });
}
