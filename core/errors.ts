/**
 * @file The program's error type: a literal code for the caller to act on, whether a retry can help, and a message that says what
 * happened, where, and what to do about it. Adapters translate foreign errors into it.
 */

/** What went wrong. Callers branch on it. */
export type ErrorCode =
  | "config-invalid"
  | "recipe-invalid"
  | "engine-unsupported"
  | "checkpoint-damaged"
  | "tokenizer-damaged"
  | "record-damaged"
  | "benchmark-damaged"
  | "demonstrations-invalid"
  | "event-malformed"
  | "store-unreachable"
  | "deployment-unreachable"
  | "disk-full"
  | "storage-unwritable"
  | "cannot-listen"
  | "worker-unavailable"
  | "process-failed"
  | "session-lost"
  | "request-refused"
  | "claim-lost"
  | "replay-failed"
  | "step-closed"
  | "deadline"
  | "tool-backend"
  | "app-failed"
  | "tracker-unavailable"
  | "hub-unavailable"
  | "hub-refused"
  | "endpoint-unavailable"
  | "endpoint-refused"
  | "judge-failed"
  | "rewards-invalid"
  | "prefix-drift"
  | "run-halted"
  | "not-found"
  | "canceled";

/** A name that does not exist, and those that do, so that the error can be printed with the nearest match. */
export interface UnknownName {
  readonly unknown: string;
  readonly known: readonly string[];
}

const BRAND = Symbol.for("mgrpo.error");

/**
 * An error for its caller to act on: branch on `code`, and repeat the call later only if `retryable`. The message says in one line what
 * happened, where, and what to do; an error that sums up several faults has one line for each. `cause` is the error behind it, if there is one.
 */
export class MgrpoError extends Error {
  readonly code: ErrorCode;
  /** True if the same call may succeed later (an outage). False if it cannot, or only once someone has fixed the fault (a mistake, a full disk). */
  readonly retryable: boolean;
  /** The record, key or value that shows what is wrong. Never a secret. */
  readonly evidence: unknown;
  readonly unknownNames: readonly UnknownName[];

  /** Recognized across copies of this class: a user's recipe may load its own. */
  readonly [BRAND] = true;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      retryable?: boolean;
      cause?: unknown;
      evidence?: unknown;
      unknownNames?: readonly UnknownName[];
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "MgrpoError";
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.evidence = options.evidence;
    this.unknownNames = options.unknownNames ?? [];
  }
}

/**
 * Whether this is an `MgrpoError` with one of these codes; without codes, with any. An error from another copy of the class counts too, so use
 * this in place of `instanceof`.
 */
export function isMgrpoError(error: unknown, ...codes: ErrorCode[]): error is MgrpoError {
  if (!(error instanceof Error) || !(BRAND in error)) return false;
  return codes.length === 0 || codes.includes((error as MgrpoError).code);
}

/** The message of an error; for anything else that was thrown, such as an error of a vm's context, the value as text: a plain object as JSON. */
export function errorText(error: unknown): string {
  if (error instanceof Error) return error.message;
  try {
    const text = String(error);
    return text === "[object Object]" ? JSON.stringify(error) : text;
  } catch {
    return "an object that has no text";
  }
}

/** The error and its causes, outermost first, each once: a chain of causes may be circular. */
export function errorChain(error: unknown): Error[] {
  const chain = new Set<Error>();
  for (let next = error; next instanceof Error && !chain.has(next); next = next.cause) chain.add(next);
  return [...chain];
}

/**
 * An error that only the user can fix: a service that refuses every request (a wrong key, an empty account, a wrong address), an app that
 * refuses the call or returns something invalid, an error in the recipe's rewards or in the schema of a tool, or a judge that has failed for too
 * long (`judge-failed` that is not retryable). Returns the error itself, or the cause of a judge's failure; undefined for any other error, even a
 * judge's bad answer.
 */
export function refusalOf(error: unknown): MgrpoError | undefined {
  if (isMgrpoError(error, "judge-failed") && !error.retryable) return error;
  const fault = isMgrpoError(error, "judge-failed") ? error.cause : error;
  if (isMgrpoError(fault, "endpoint-refused", "rewards-invalid")) return fault;
  return isMgrpoError(fault, "tool-backend", "app-failed") && !fault.retryable ? fault : undefined;
}
