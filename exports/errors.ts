/**
 * @file `mgrpo/errors`: the one error type of this package. `code` is a literal to branch on, `retryable` says whether the same call may
 * succeed later, `evidence` shows the value at fault. Test with `isMgrpoError`, not `instanceof`: a recipe may load its own copy.
 */
export { type ErrorCode, isMgrpoError, MgrpoError } from "../core/errors.ts";
