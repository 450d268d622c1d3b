/**
 * @file What goes wrong when a model is asked, in one line each, and whether another try can help: the one place that says so.
 * Nothing of a request is kept in an error, and no key: servers repeat both.
 */
import { APICallError, InvalidResponseDataError } from "@ai-sdk/provider";
import { MgrpoError } from "../../core/errors.ts";
import type { TokenUsage } from "../../core/language-model.ts";
import type { Endpoint } from "./provider.ts";

/** Characters of a server's own words that a message repeats. */
const QUOTED = 300;

/** What is refused because of what was said, and would not be in another conversation. */
export type ContentRefusal = "too-long" | "filtered";

interface Details {
  readonly status?: number | undefined;
  readonly afterSeconds?: number;
  readonly objection?: ContentRefusal;
  /** Of an answer that came, and is paid for, but is of no use. */
  readonly usage?: TokenUsage;
}

/** A failure of one try. */
export class EndpointFailure extends MgrpoError {
  /** When the server wants to be asked again. */
  readonly afterSeconds: number;
  readonly contentRefusal: ContentRefusal | undefined;

  constructor(code: "endpoint-unavailable" | "endpoint-refused", message: string, details: Details = {}) {
    const { status, objection, usage } = details;
    const evidence = { status, objection, ...(usage && { usage }) };
    super(code, message, { retryable: code === "endpoint-unavailable", evidence });
    this.afterSeconds = details.afterSeconds ?? 0;
    this.contentRefusal = details.objection;
  }
}

const TOO_LONG = /context_length_exceeded|context (length|window|size)|too (long|many tokens)/i;
const FILTERED = /content_filter|content_policy|content management policy/i;

/** Of what a try threw while neither its caller nor its time-out ended it. */
export function translateEndpointError(error: unknown, endpoint: Endpoint): EndpointFailure {
  const { name, redact } = endpoint;
  if (InvalidResponseDataError.isInstance(error)) return refused(`${name} gave no answer: ${quote(error.message)}`);
  if (!APICallError.isInstance(error)) {
    const text = error instanceof Error ? error.message : String(error);
    if (/credential/i.test(text)) return refused(`${name}: check ${endpoint.credentials} (${quote(redact(text))})`);
    return refused(`${name} could not be asked: ${quote(redact(text))}`);
  }
  const answered = answerOf(error);
  const said = quote(redact(answered.message));
  if (answered.status === undefined) {
    return unavailable(`${name} does not answer (${said}): check that the server runs, and its URL`);
  }
  return meaning({ ...answered, message: said }, endpoint, secondsOf(error.responseHeaders));
}

interface Answered {
  readonly status: number | undefined;
  readonly message: string;
  /** The server's own, such as `insufficient_quota`. */
  readonly code?: string;
}

/** The status and the server's reason. Gateways report failures of those behind them with status 200 and an `error`. */
function answerOf({ statusCode: status, message, responseBody, cause }: APICallError): Answered {
  if (status === undefined) return { status, message: cause instanceof Error ? deepest(cause) : message };
  const body = parsed(responseBody ?? "");
  const error = recordOf(recordOf(body)["error"] ?? body);
  const told = typeof error["message"] === "string" ? error["message"] : undefined;
  const code = error["code"] ?? error["type"];
  if (status !== 200) {
    const text = responseBody ?? "";
    const words = told ?? (isHtml(text) ? "an HTML page" : text || message);
    return { status, message: words, ...(typeof code === "string" && { code }) };
  }
  if (told !== undefined) return { status: typeof code === "number" ? code : 500, message: told };
  // A connection that broke off within the body, and a body that is not what was asked for.
  return { status: responseBody === undefined ? undefined : 200, message: responseBody ?? deepest(cause) };
}

function meaning(
  { status = 0, message, code }: Answered,
  { name, credentials }: Endpoint,
  after: number,
): EndpointFailure {
  const detail = message === "" ? `HTTP ${status}` : `HTTP ${status}: ${message}`;
  const refuse = (says: string) => refused(`${name} ${says} (${detail})`, status);
  if (status === 200) {
    if (isHtml(message))
      return refused(`${name} answers with HTML, not JSON: check the base URL, it often ends in /v1`, 200);
    if (parsed(message) === undefined) return unavailable(`${name} gave an answer that breaks off (${detail})`, 200);
    return refuse("gave an answer that is not a chat completion");
  }
  if (status === 401 || status === 403) return refuse(`refused the call: ${check(credentials)}`);
  if (status === 402 || code === "insufficient_quota") return refuse("wants to be paid first: top up the account");
  if (status === 404 || status === 405) {
    return refuse("is not there: check the model's name and the base URL, which often ends in /v1");
  }
  if (status === 429) return unavailable(`${name} is asked more than it allows (${detail})`, status, after);
  if (status >= 500 && status !== 501) return unavailable(`${name} has failed (${detail})`, status, after);
  if (status === 408 || status === 409 || status === 425) {
    return unavailable(`${name} asks for another try (${detail})`, status, after);
  }
  const why = `${code ?? ""} ${message}`;
  const objection = TOO_LONG.test(why) ? "too-long" : FILTERED.test(why) ? "filtered" : undefined;
  const refusal = `${name} refused the request (${detail})`;
  return new EndpointFailure("endpoint-refused", refusal, { status, ...(objection && { objection }) });
}

const check = (credentials: string) => (credentials.startsWith("no key") ? credentials : `check ${credentials}`);

export const refused = (message: string, status?: number) =>
  new EndpointFailure("endpoint-refused", message, { status });
export const unavailable = (message: string, status?: number, afterSeconds = 0) =>
  new EndpointFailure("endpoint-unavailable", message, { status, afterSeconds });

/** Retry-After: seconds or a date; some servers say milliseconds in a header of their own. */
function secondsOf(headers: Record<string, string> = {}): number {
  const milliseconds = Number(headers["retry-after-ms"]);
  if (milliseconds > 0) return milliseconds / 1000;
  const after = headers["retry-after"] ?? "";
  const seconds = after.trim() === "" ? 0 : Number(after);
  return Math.max(0, Number.isNaN(seconds) ? (Date.parse(after) - Date.now()) / 1000 || 0 : seconds);
}

/** One line, and not a long one. */
function quote(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > QUOTED ? `${line.slice(0, QUOTED)}…` : line;
}

function deepest(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message || inner.name : String(inner);
}

const isHtml = (text: string) => /^\s*</.test(text);

function recordOf(value: unknown): Record<string, unknown> {
  return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : {};
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
