/** @file Checks that a model server is reachable before a run starts, so that a wrong port is found before any work begins. */
import type { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { MgrpoError } from "../../core/errors.ts";
import { innermostMessage } from "./errors.ts";

/** Longer than the ten seconds after which `fetch` itself gives up on a host that drops packets. */
const TIMEOUT_MILLISECONDS = 15_000;

/**
 * Rejects with `endpoint-unavailable` if the connection to an OpenAI-compatible model's server fails, or if what listens there does not speak
 * HTTP. Any response shows that the server runs, even an error: no key is sent, and not every server lists its models. A server that accepts
 * the connection but has not answered after 15 seconds is taken to be busy. Bedrock is not checked.
 */
export async function requireServer(spec: LanguageModelSpec): Promise<void> {
  if (spec.provider !== "openai") return;
  const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  try {
    const response = await fetch(`${spec.baseUrl.replace(/\/$/, "")}/models`, { signal });
    await response.body?.cancel();
  } catch (error) {
    if (signal.aborted) return;
    const message = `model '${spec.model}' at ${spec.baseUrl} does not answer (${innermostMessage(error)}): check that the server is running, and check its URL`;
    throw new MgrpoError("endpoint-unavailable", message, { retryable: true });
  }
}
