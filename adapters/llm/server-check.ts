/** @file Whether a model server answers at all, asked once before a run, so that a mistyped port is found before any question is asked. */
import type { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { errorChain, MgrpoError } from "../../core/errors.ts";

/** Long enough for `fetch` itself to give up on a host that drops packets, after ten seconds. */
const TIMEOUT_MILLISECONDS = 15_000;

/**
 * Rejects with `endpoint-unavailable` if the server of an OpenAI-compatible model cannot be connected to. Any response shows that it runs: not
 * every server lists its models, and a key is not sent. A server that has not answered after 15 seconds is busy. Bedrock is not asked.
 */
export async function requireServer(spec: LanguageModelSpec): Promise<void> {
  if (spec.provider !== "openai") return;
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  try {
    const response = await fetch(`${spec.baseUrl.replace(/\/$/, "")}/models`, { signal });
    await response.body?.cancel();
  } catch (error) {
    if (signal.aborted) return;
    const cause = errorChain(error).at(-1);
    const message = `model '${spec.model}' at ${spec.baseUrl} does not answer (${cause?.message}): check that the server runs, and its URL`;
    throw new MgrpoError("endpoint-unavailable", message, { cause, retryable: true });
  }
}
