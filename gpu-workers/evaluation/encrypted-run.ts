/**
 * @file A run as the evaluator of an encrypted benchmark sees it: objects are encrypted before they reach the store, and neither log lines
 * nor errors quote a question's text.
 */

import { quotationRedactor } from "../../core/contracts/encryption.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { errorChain } from "../../core/errors.ts";
import { encryptedObjects } from "../../core/training/encrypted-objects.ts";
import type { Log } from "../log.ts";
import type { RunContext } from "../run-context.ts";

/**
 * Calls `work` with such a run, or with the run itself if the questions are not encrypted. `work` must pass any text that it returns
 * through `redact`.
 */
export async function withEncryption<T>(
  run: RunContext,
  set: SuiteQuestions,
  work: (run: RunContext, redact: (message: string) => string) => Promise<T>,
): Promise<T> {
  if (set.canary === undefined) return work(run, (message) => message);
  const redact = quotationRedactor(set);
  const objects = encryptedObjects(run.store.objects, set.canary);
  try {
    return await work({ ...run, store: { ...run.store, objects }, log: redactedLog(run.log, redact) }, redact);
  } catch (error) {
    for (const fault of errorChain(error)) redactFault(fault, redact);
    throw error;
  }
}

/** Redefines the properties: those of a DOMException, the reason of an aborted signal, cannot be assigned. */
function redactFault(fault: Error, redact: (text: string) => string): void {
  const define = (name: "message" | "stack", text: string) =>
    Object.defineProperty(fault, name, { value: redact(text), writable: true, configurable: true });
  if (fault.stack !== undefined) define("stack", fault.stack);
  define("message", fault.message);
}

/**
 * A run's log for lines from outside `withEncryption`, such as those about unhandled rejections: none quotes a question of an encrypted suite.
 * Logging the first line reads all of these questions.
 */
export function logWithoutQuestions(run: Pick<RunContext, "config" | "suiteQuestions" | "log">): Log {
  let redactors: ((text: string) => string)[] | undefined;
  const redact = (text: string) => {
    redactors ??= run.config.evaluation.suites
      .map((suite) => run.suiteQuestions(suite))
      .filter(({ canary }) => canary !== undefined)
      .map(quotationRedactor);
    return redactors.reduce((shown, one) => one(shown), text);
  };
  return redactedLog(run.log, redact);
}

function redactedLog(log: Log, redact: (text: string) => string): Log {
  const redactedFields = (fields: Record<string, unknown> = {}) =>
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? redact(value) : value]),
    );
  return {
    info: (what, fields) => log.info(what, redactedFields(fields)),
    warn: (what, fields) => log.warn(what, redactedFields(fields)),
    error: (what, fields) => log.error(what, redactedFields(fields)),
  };
}
