/** @file A request that the agent's chat template or tokenizer refuses to render: the app's fault. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** Renders a request's messages, or throws `request-refused` if the chat template or the tokenizer refuses them. */
export function renderOrRefuse<T>(render: () => T): T {
  try {
    return render();
  } catch (cause) {
    if (!isMgrpoError(cause, "tokenizer-damaged", "prefix-drift")) throw cause;
    const message = `the model's chat template refuses this conversation: ${cause.message}`;
    throw new MgrpoError("request-refused", message, { cause });
  }
}
