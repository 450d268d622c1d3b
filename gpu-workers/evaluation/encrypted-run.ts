/**
 * @file A run as the evaluator of an encrypted benchmark sees it: objects are encrypted before they reach the store, and neither log lines
 * nor errors quote a question's text.
 */

import { withoutQuotes } from "../../core/contracts/encryption.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { encryptedObjects } from "../../core/training/encrypted-objects.ts";
import type { Log } from "../log.ts";
import type { RunContext } from "../run-context.ts";

/**
 * Does the work with such a run, or with the run itself if the questions are not encrypted. The work must pass any text that it returns
 * through `unquoted`.
 */
export async function withEncryption<T>(
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
