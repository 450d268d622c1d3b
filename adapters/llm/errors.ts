/**
 * @file Translates the failures of a request to a model, one line each, and decides whether a retry can help. An error never contains
 * the key, even if the server repeats it, and contains only as much of the request as the server's quoted reason does.
 */
import { APICallError, InvalidResponseDataError } from "@ai-sdk/provider";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import { errorChain, errorText, MgrpoError } from "../../core/errors.ts";
import type { TokenUsage } from "../../core/language-model-ports.ts";
import { retryAfterSeconds } from "../../core/retry-after.ts";
import { ResponseTooLarge } from "../response-limit.ts";
import { noAnswerIn } from "./no-answer.ts";
import type { Endpoint } from "./provider.ts";

/** Maximum number of characters that a message quotes of a server's text. */
const MAX_QUOTED = 300;

/** The server refuses this content; another conversation would be accepted. */
export type ContentRefusal = "too-long" | "filtered";

/**
 * The server withholds what its model generated, with status 400: the model ran out of tokens before it answered, or wrote an invalid call or
 * invalid JSON.
 */
export type AnswerFault = "unfinished" | "malformed";

interface Details {
  readonly status?: number | undefined;
  readonly afterSeconds?: number;
  readonly contentRefusal?: ContentRefusal;
  readonly answerFault?: AnswerFault;
  /** The usage of an answer that is billed but useless. */
  readonly usage?: TokenUsage;
}

/** One attempt failed. */
export class EndpointFailure extends MgrpoError {
  /** Seconds to wait before the next attempt; 0: the server names none. */
  readonly afterSeconds: number;
  readonly contentRefusal: ContentRefusal | undefined;
  readonly answerFault: AnswerFault | undefined;
  readonly usage: TokenUsage | undefined;

  constructor(code: "endpoint-unavailable" | "endpoint-refused", message: string, details: Details = {}) {
    const { status, contentRefusal, answerFault, usage } = details;
    const evidence = { status, contentRefusal, ...(answerFault && { answerFault }), ...(usage && { usage }) };
    super(code, message, { retryable: code === "endpoint-unavailable", evidence });
    this.afterSeconds = details.afterSeconds ?? 0;
    this.contentRefusal = contentRefusal;
    this.answerFault = answerFault;
    this.usage = usage;
  }
}

/**
 * How these servers word it, in this order: OpenAI, Anthropic (`context limit`) and most others; Amazon Nova; Gemini and Vertex AI; xAI; Kimi;
 * GLM; Qwen; text-generation-inference.
 */
const TOO_LONG = new RegExp(
  [
    "context_length_exceeded|context (length|window|size|limit)|too (long|many tokens)",
    "input tokens? exceed|input token count .*(exceeds|only supports)|maximum prompt length",
    "exceeded model token limit|prompt exceeds max length|range of input length",
    "`inputs` (tokens \\+|must have less)",
  ].join("|"),
  "i",
);
/** OpenAI's 429 for a request of more tokens than the account may use in a minute: no retry succeeds. */
const TOO_LARGE_FOR_RATE = /request too large .*tokens per min/i;
/** How these servers word it, in this order: most; OpenAI, for reasoning models; Azure; DeepSeek; Qwen; OpenRouter; xAI. */
const FILTERED = new RegExp(
  [
    "content_filter|content_policy|invalid_prompt|content management policy",
    "content exists risk|data_inspection_failed|input was flagged|violates usage guidelines",
  ].join("|"),
  "i",
);
/** What OpenAI says if a reasoning model runs out of tokens before it answers. */
const UNFINISHED = /could not finish the message because max_tokens/i;
/** The codes of Groq for a malformed tool call, and for JSON that does not match the schema. */
const MALFORMED = /\b(tool_use_failed|json_validate_failed)\b/;
/** The codes of OpenAI and of Kimi for an empty account, with status 429 or 403. */
const UNPAID: readonly string[] = ["insufficient_quota", "exceeded_current_quota_error"];
/** What OpenAI and DeepSeek say if a tool's name or description, or the list of tools, is too long: every conversation would be refused. */
const INVALID_TOOL = /invalid 'tools['[]/i;

/** Not for attempts that the caller or the timeout ended. */
export function translateEndpointError(error: unknown, endpoint: Endpoint): EndpointFailure {
  const { name, redact } = endpoint;
  const tooLarge = errorChain(error).find((cause) => cause instanceof ResponseTooLarge);
  if (tooLarge) {
    return refused(`${name} sent ${tooLarge.message}: check that its address is that of a model server`);
  }
  const noAnswer = noAnswerIn(answerBodyOf(error));
  if (noAnswer) {
    const message = `${name} gave no answer: its content filter may have blocked the prompt or the answer`;
    return new EndpointFailure("endpoint-refused", message, { contentRefusal: "filtered", ...noAnswer });
  }
  if (InvalidResponseDataError.isInstance(error))
    return refused(`${name} gave no answer: ${quote(redact(error.message))}`);
  if (!APICallError.isInstance(error)) {
    const text = errorText(error);
    if (/credential/i.test(text)) return refused(`${name}: ${endpoint.credentialAdvice} (${quote(redact(text))})`);
    return refused(`${name} could not be called: ${quote(redact(text))}`);
  }
  const response = errorResponseOf(error);
  const reason = quote(redact(response.message));
  if (response.status === undefined) {
    return unavailable(`${name} does not answer (${reason}): check that the server is running, and check its URL`);
  }
  return failureOf(
    response,
    reason,
    endpoint,
    retryAfterSeconds((name) => error.responseHeaders?.[name], Date.now()),
  );
}

/** Whether the server may charge for an answer whose token counts cannot be read: one that arrived, began or was withheld. */
export function mayBeCharged(error: unknown): boolean {
  const noAnswer = noAnswerIn(answerBodyOf(error));
  if (noAnswer) return noAnswer.usage === undefined;
  if (!APICallError.isInstance(error)) return false;
  const { responseBody, statusCode } = error;
  if (statusCode !== 200) return answerFaultOf(errorResponseOf(error)) !== undefined;
  if (responseBody === undefined) return true;
  const body = jsonOrUndefined(responseBody);
  if (body === undefined) return !isHtml(responseBody);
  const { choices } = recordOf(body);
  const response = errorResponseOf(error);
  // An answer in a format of the server's own.
  if (response.status === 200) return choices !== undefined;
  // A gateway reports a failure with status 200. It has begun an answer if there is a choice, or if the failure is that the answer is withheld.
  return (Array.isArray(choices) && choices.length > 0) || withheldFault(response) !== undefined;
}

/** The parsed body of a 200 response that is not a completion. */
function answerBodyOf(error: unknown): unknown {
  if (InvalidResponseDataError.isInstance(error)) return error.data;
  return APICallError.isInstance(error) && error.statusCode === 200
    ? jsonOrUndefined(error.responseBody ?? "")
    : undefined;
}

interface ErrorResponse {
  readonly status: number | undefined;
  readonly message: string;
  /** The server's own error code, such as `insufficient_quota`. */
  readonly code?: string;
}

/** The status and the server's reason. Gateways report failures of their backends with status 200 and an `error`. */
function errorResponseOf({ statusCode: status, message, responseBody, cause }: APICallError): ErrorResponse {
  if (status === undefined) return { status, message: cause instanceof Error ? innermostMessage(cause) : message };
  const body = jsonOrUndefined(responseBody ?? "");
  const error = recordOf(recordOf(body)["error"] ?? body);
  const serverMessage = messageOf(error);
  const code = error["code"] ?? error["type"];
  if (status !== 200) {
    const text = responseBody ?? "";
    const reason = serverMessage ?? (isHtml(text) ? "an HTML page" : text || message);
    return { status, message: reason, ...(typeof code === "string" && { code }) };
  }
  const own = typeof code === "string" && { code };
  if (serverMessage !== undefined) {
    return { status: typeof code === "number" ? code : 500, message: serverMessage, ...own };
  }
  // The connection was lost mid-body, or the body is not a completion.
  return { status: responseBody === undefined ? undefined : 200, message: responseBody ?? innermostMessage(cause) };
}

/** OpenRouter's own message may say only that a provider failed: the provider's answer is in `metadata.raw`. */
function messageOf(error: Record<string, unknown>): string | undefined {
  if (typeof error["message"] !== "string") return undefined;
  const raw = recordOf(error["metadata"])["raw"];
  return typeof raw === "string" ? `${error["message"]}: ${raw}` : error["message"];
}

/** @param reason the response's message, as it is quoted. */
function failureOf(
  { status = 0, message, code }: ErrorResponse,
  reason: string,
  { name, credentialAdvice }: Endpoint,
  after: number,
): EndpointFailure {
  const detail = reason === "" ? `HTTP ${status}` : `HTTP ${status}: ${reason}`;
  const refuse = (problem: string) => refused(`${name} ${problem} (${detail})`, status);
  if (status === 200) {
    if (isHtml(message))
      return refused(`${name} answers with HTML, not JSON: check the base URL, which often ends in /v1`, 200);
    if (jsonOrUndefined(message) === undefined)
      return unavailable(`${name} gave an answer that is cut off (${detail})`, 200);
    return refuse("gave an answer that is not a chat completion");
  }
  const answerFault = answerFaultOf({ status, message, ...(code !== undefined && { code }) });
  if (answerFault) {
    const withheld = `${name} withheld its answer (${detail})`;
    return new EndpointFailure("endpoint-refused", withheld, { status, answerFault });
  }
  const contentRefusal = contentRefusalOf(status, `${code ?? ""} ${reason}`);
  if (status === 402 || UNPAID.includes(code ?? "")) return refuse("requires payment: top up the account");
  // OpenRouter's moderation responds with 403, and so does xAI's.
  if (status === 401 || (status === 403 && contentRefusal !== "filtered"))
    return refuse(`refused the call: ${credentialAdvice}`);
  if (status === 404 || status === 405) {
    return refuse("does not exist: check the model's name and the base URL, which often ends in /v1");
  }
  if (status === 429 && contentRefusal !== "too-long")
    return unavailable(`${name} is rate limited (${detail})`, status, after);
  // 424: the model failed, on Bedrock and in text-generation-inference.
  if ((status >= 500 && status !== 501) || status === 424)
    return unavailable(`${name} has failed (${detail})`, status, after);
  if (status === 408 || status === 409 || status === 425) {
    return unavailable(`${name} asks for a retry (${detail})`, status, after);
  }
  const refusal = `${name} refused the request (${detail})`;
  return new EndpointFailure("endpoint-refused", refusal, { status, ...(contentRefusal && { contentRefusal }) });
}

const answerFaultOf = (response: ErrorResponse): AnswerFault | undefined =>
  response.status === 400 ? withheldFault(response) : undefined;

/** Like `answerFaultOf`, but for any status. */
function withheldFault({ message, code = "" }: ErrorResponse): AnswerFault | undefined {
  if (UNFINISHED.test(message)) return "unfinished";
  return MALFORMED.test(`${code} ${message}`) ? "malformed" : undefined;
}

function contentRefusalOf(status: number, why: string): ContentRefusal | undefined {
  if (INVALID_TOOL.test(why)) return undefined;
  // Bedrock's 429 speaks of too many tokens, too, but a later request passes.
  if (status === 429) return TOO_LARGE_FOR_RATE.test(why) ? "too-long" : undefined;
  if (status === 413 || TOO_LONG.test(why)) return "too-long";
  return FILTERED.test(why) ? "filtered" : undefined;
}

export const refused = (message: string, status?: number) =>
  new EndpointFailure("endpoint-refused", message, { status });
export const unavailable = (message: string, status?: number, afterSeconds = 0) =>
  new EndpointFailure("endpoint-unavailable", message, { status, afterSeconds });

/** One line, shortened. */
function quote(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > MAX_QUOTED ? `${line.slice(0, MAX_QUOTED)}…` : line;
}

/** An error for several addresses of a host (`AggregateError`) has a code, but no message. */
export function innermostMessage(error: unknown): string {
  const inner: NodeJS.ErrnoException | undefined = errorChain(error).at(-1);
  return inner ? inner.message || inner.code || inner.name : String(error);
}

const isHtml = (text: string) => /^\s*</.test(text);

function recordOf(value: unknown): Record<string, unknown> {
  return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : {};
}
