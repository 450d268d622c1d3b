/** @file Errors as plain data, which structured clone keeps whole: threads exchange errors in this form. */
import { type ErrorCode, isMgrpoError, MgrpoError, type UnknownName } from "./errors.ts";

export interface PortableError {
  /** Absent: not an MgrpoError. */
  readonly code?: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly evidence: unknown;
  readonly unknownNames?: readonly UnknownName[];
  readonly cause?: PortableError;
}

/** Maximum number of causes that are kept: a chain of causes may be circular. */
const CAUSES = 10;

export function toPortable(error: unknown, causes = CAUSES): PortableError {
  if (!(error instanceof Error)) return { message: String(error), retryable: false, evidence: undefined };
  const cause = error.cause === undefined || causes === 0 ? {} : { cause: toPortable(error.cause, causes - 1) };
  const { message } = error;
  if (!isMgrpoError(error)) return { message, retryable: false, evidence: undefined, ...cause };
  const { code, retryable, evidence, unknownNames } = error;
  return { code, message, retryable, evidence: cloneOf(evidence), unknownNames, ...cause };
}

/** Undefined if it cannot be cloned: a user's error may have any evidence, such as an object with methods. */
function cloneOf(evidence: unknown): unknown {
  try {
    return structuredClone(evidence);
  } catch {
    return undefined;
  }
}

export function fromPortable({ code, message, retryable, evidence, unknownNames, cause }: PortableError): Error {
  const options = cause === undefined ? {} : { cause: fromPortable(cause) };
  return code === undefined
    ? new Error(message, options)
    : new MgrpoError(code, message, { retryable, evidence, unknownNames: unknownNames ?? [], ...options });
}
