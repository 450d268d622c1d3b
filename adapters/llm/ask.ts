/**
 * @file One request to a model: its attempts, the pauses between them, and its usage.
 *
 *     attempt ──answer──> done
 *      │ ▲
 *      │ └── waits for: Retry-After, and exponential backoff   unblocked by: time, or the caller's signal
 *      ├── a retryable failure (429, 5xx except 501, timeout, broken off, …), if attempts are left and Retry-After is at most a minute
 *      └── anything else: throws
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV3CallOptions, LanguageModelV3GenerateResult } from "@ai-sdk/provider";
import pRetry from "p-retry";
import { linkSignals } from "../../core/any-signal.ts";
import type { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { TokenUsage } from "../../core/language-model-ports.ts";
import { redactJson } from "../../core/redact.ts";
import { toWellFormedJson } from "../../core/well-formed.ts";
import { EndpointFailure, mayBeCharged, refused, translateEndpointError, unavailable } from "./errors.ts";
import type { Endpoint } from "./provider.ts";
import { usageOf } from "./usage.ts";

/** The default base of the backoff. */
const PAUSE_SECONDS = 1;
/** The longest backoff. A server that demands a longer pause counts as unavailable. */
const MAX_WAIT_SECONDS = 60;

export interface RetryPolicy extends Pick<LanguageModelSpec, "timeoutSeconds" | "attempts"> {
  /** See `OpenModelOptions`. */
  readonly pauseSeconds?: number;
  /**
   * Called for each request that was sent and then cut off by `timeoutSeconds` or the caller's signal, whose answer the server broke off or
   * withheld, or that was answered without usage, or with content and a usage of 0. Not called if the connection fails before a response.
   */
  readonly onUnknownUsage?: () => void;
}

export interface GeneratedReply extends Pick<LanguageModelV3GenerateResult, "content"> {
  /** `length`: the answer is cut, at the limit of the request or of the model's context. */
  readonly stop: "stop" | "length";
  readonly usage: TokenUsage;
  /** The response body, parsed, as the server sent it: it may repeat the key. Undefined on Bedrock. */
  readonly body: unknown;
}

export async function requestCompletion(
  endpoint: Endpoint,
  request: LanguageModelV3CallOptions,
  { attempts, timeoutSeconds, pauseSeconds = PAUSE_SECONDS, onUnknownUsage = () => {} }: RetryPolicy,
  signal?: AbortSignal,
): Promise<GeneratedReply> {
  let attempted = 0;
  const attempt = async () => {
    attempted += 1;
    const result = await once(endpoint, request, { timeoutSeconds, onUnknownUsage }, signal);
    const { raw = "" } = result.finishReason;
    const { inputTokens, outputTokens, raw: counts } = result.usage;
    const usage = usageOf(inputTokens.total, outputTokens.total, counts?.["total_tokens"]);
    if (!usage || isUncounted(usage, result) || BROKEN_OFF.includes(raw)) onUnknownUsage();
    if (!BROKEN_OFF.includes(raw)) return answerOf(endpoint, result, usage);
    throw unavailable(`${endpoint.name} broke off its answer (finish reason '${raw}')`);
  };
  try {
    return await pRetry(attempt, {
      retries: attempts - 1,
      minTimeout: pauseSeconds * 1000,
      maxTimeout: MAX_WAIT_SECONDS * 1000,
      randomize: true,
      shouldRetry: ({ error }) =>
        error instanceof EndpointFailure && error.retryable && error.afterSeconds <= MAX_WAIT_SECONDS,
      onFailedAttempt: async ({ error, retriesLeft }) => {
        if (!(error instanceof EndpointFailure) || !error.retryable || retriesLeft === 0) return;
        if (error.afterSeconds <= MAX_WAIT_SECONDS) await sleep(error.afterSeconds * 1000, undefined, { signal });
      },
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw canceled(endpoint, signal);
    throw error instanceof EndpointFailure && error.retryable ? givenUp(error, attempted) : error;
  }
}

function givenUp(failure: EndpointFailure, attempts: number): MgrpoError {
  const isLong = failure.afterSeconds > MAX_WAIT_SECONDS;
  const wait = isLong ? `; the server asks for a pause of ${Math.ceil(failure.afterSeconds)} s` : "";
  const count = attempts === 1 ? "one attempt" : `${attempts} attempts`;
  return new MgrpoError(failure.code, `${failure.message}; gave up after ${count}${wait}`, {
    retryable: true,
    evidence: failure.evidence,
    cause: failure,
  });
}

async function once(
  endpoint: Endpoint,
  request: LanguageModelV3CallOptions,
  { timeoutSeconds, onUnknownUsage }: Required<Pick<RetryPolicy, "timeoutSeconds" | "onUnknownUsage">>,
  signal: AbortSignal | undefined,
): Promise<LanguageModelV3GenerateResult> {
  const timeout = AbortSignal.timeout(Math.ceil(timeoutSeconds * 1000));
  const { signal: abortSignal, unlink } = linkSignals(signal, timeout);
  let isSent = false;
  try {
    const model = await endpoint.model();
    abortSignal.throwIfAborted();
    isSent = true;
    return await model.doGenerate({ ...toWellFormedJson(request), abortSignal });
  } catch (error) {
    if (isSent && (abortSignal.aborted || mayBeCharged(error))) onUnknownUsage();
    if (signal?.aborted) throw error;
    if (timeout.aborted) throw unavailable(`${endpoint.name} took more than ${timeoutSeconds} s`);
    throw translateEndpointError(error, endpoint);
  } finally {
    unlink();
  }
}

/** Whether an answer with content has counts of 0: servers that do not count report 0, and the AI SDK turns missing counts into 0. */
function isUncounted({ inputTokens, outputTokens }: TokenUsage, { content }: LanguageModelV3GenerateResult): boolean {
  return inputTokens + outputTokens === 0 && content.length > 0;
}

/** Finish reasons of an answer that its server broke off: of SGLang and vLLM, of OpenRouter and Mistral, of DeepSeek, of GLM. */
const BROKEN_OFF = ["abort", "error", "insufficient_system_resource", "network_error"];
/** Finish reasons that the AI SDK does not map to `length`: those of GLM, of Claude on Bedrock, and of gateways that pass Anthropic's or Gemini's on. */
const CUT = /^(model_context_window_exceeded|max_tokens)$/i;
/** GLM's finish reason for what its content filter withholds. */
const SENSITIVE = "sensitive";

/**
 * The answer, without the key if the server repeats it. A filtered answer is a failure. So is one without usage: it cannot be checked against
 * a limit.
 */
function answerOf(
  { name, redact }: Endpoint,
  { content, finishReason, response }: LanguageModelV3GenerateResult,
  usage: TokenUsage | undefined,
): GeneratedReply {
  if (finishReason.unified === "content-filter" || finishReason.raw === SENSITIVE) {
    throw new EndpointFailure("endpoint-refused", `${name} withheld its answer: the server's content filter`, {
      contentRefusal: "filtered",
      ...(usage && { usage }),
    });
  }
  if (!usage) throw refused(`${name} reports no usable token counts: use a server that reports usage`);
  const isCut = finishReason.unified === "length" || CUT.test(finishReason.raw ?? "");
  return { content: redactJson(redact, content), stop: isCut ? "length" : "stop", usage, body: response?.body };
}

function canceled({ name }: Endpoint, { reason }: AbortSignal): MgrpoError {
  if (isMgrpoError(reason)) return reason;
  return new MgrpoError("canceled", `the request to ${name} was canceled`, { cause: reason });
}
