/**
 * @file A run as whoever evaluates an encrypted benchmark sees it: its objects are encrypted on their way into the store, and neither log lines
 * nor errors repeat what a question says, whoever quoted it.
 */

import { withoutQuotes } from "../../core/contracts/encryption.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { encryptedObjects } from "../../core/training/encrypted-objects.ts";
import type { Log } from "../log.ts";
import type { RunContext } from "../run-context.ts";

/**
 * Does the work with such a run; with the run itself where the questions are not encrypted. What it says without encrypting has to go through
 * `unquoted`.
 */
export async function encrypting<T>(
  run: RunContext,
  set: SuiteQuestions,
  work: (run: RunContext, unquoted: (message: string) => string) => Promise<T>,
): Promise<T> {
  if (set.canary === undefined) return work(run, (message) => message);
  const unquoted = withoutQuotes(set);
  const objects = encryptedObjects(run.store.objects, set.canary);
  try {
    return await work({ ...run, store: { ...run.store, objects }, log: clean(run.log, unquoted) }, unquoted);
  } catch (error) {
    for (let fault = error; fault instanceof Error; fault = fault.cause) {
      fault.message = unquoted(fault.message);
      if (fault.stack !== undefined) fault.stack = unquoted(fault.stack);
    }
    throw error;
  }
}

function clean(log: Log, unquoted: (text: string) => string): Log {
  const cleaned = (fields: Record<string, unknown> = {}) =>
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? unquoted(value) : value]),
    );
  return {
    info: (what, fields) => log.info(what, cleaned(fields)),
    warn: (what, fields) => log.warn(what, cleaned(fields)),
    error: (what, fields) => log.error(what, cleaned(fields)),
  };
}
