/** @file Errors of the engine as MgrpoErrors. */
import { errorText, isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** Any error that is not already an MgrpoError becomes `engine-unsupported`. */
export function asEngineError(cause: unknown): MgrpoError {
  if (isMgrpoError(cause)) return cause;
  const reason = errorText(cause);
  return new MgrpoError("engine-unsupported", `the engine failed: ${reason}`, { cause });
}
