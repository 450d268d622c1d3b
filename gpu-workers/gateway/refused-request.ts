/** @file A request that its agent cannot be shown. That is the app's fault: everything else that fails is the infrastructure's. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** Calls `show`, which lays a request's messages out. Throws `request-refused` where the chat template or the tokenizer refuses them. */
export function refusing<T>(show: () => T): T {
  try {
    return show();
  } catch (cause) {
    if (!isMgrpoError(cause, "tokenizer-damaged", "prefix-drift")) throw cause;
    const message = `the model's chat template refuses this conversation: ${cause.message}`;
    throw new MgrpoError("request-refused", message, { cause });
  }
}
