/** @file A request that the agent's chat template or tokenizer cannot render: the app's fault. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** Calls `render`, which renders a request's messages. Throws `request-refused` if the chat template or the tokenizer refuses them. */
export function refusing<T>(render: () => T): T {
  try {
    return render();
  } catch (cause) {
    if (!isMgrpoError(cause, "tokenizer-damaged", "prefix-drift")) throw cause;
    const message = `the model's chat template refuses this conversation: ${cause.message}`;
    throw new MgrpoError("request-refused", message, { cause });
  }
}
