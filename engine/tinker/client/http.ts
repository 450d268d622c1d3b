/**
 * @file One attempt at an HTTP request to a Tinker server: its response is final, or the attempt is worth a retry. The API key is sent
 * only over TLS or to this machine, never to the target of a redirect, and appears in no error message, even if the server repeats it.
 */
import { withAnySignal } from "../../../core/any-signal.ts";
import { jsonOrUndefined } from "../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { readAtMost } from "../../../core/read-at-most.ts";
import { type Redact, redactor } from "../../../core/redact.ts";
import { retryAfterSeconds } from "../../../core/retry-after.ts";
import { Refusal } from "./messages.ts";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A final response from the server. */
export type HttpAnswer =
  | { readonly kind: "json"; readonly value: unknown }
  /** `hasDetail`: the body is the Tinker server's own error, not a proxy's. */
  | { readonly kind: "refused"; readonly status: number; readonly message: string; readonly hasDetail: boolean };

interface RetryableOptions {
  readonly afterSeconds?: number;
  readonly isTimeout?: boolean;
  readonly cause?: unknown;
}

/** A failed attempt that is worth retrying, after `afterSeconds` if the server specifies it. */
export class RetryableFailure extends Error {
  readonly afterSeconds: number;
  readonly isTimeout: boolean;
  constructor(message: string, { afterSeconds = 0, isTimeout = false, cause }: RetryableOptions = {}) {
    super(message, { cause });
    this.afterSeconds = afterSeconds;
    this.isTimeout = isTimeout;
  }
}

export interface RequestAttempt {
  readonly method: string;
  readonly url: string;
  readonly init: RequestInit;
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal | undefined;
}

const KEY_HEADER = "x-api-key";
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
/** The longest pause before a retry, even if the server asks for a longer one. */
const MAXIMUM_RETRY_AFTER_SECONDS = 60;
/** Measured after decompression. V8 has no longer strings, so a larger response could not be parsed. */
const MAX_RESPONSE_BYTES = 2 ** 29;

/**
 * Throws RetryableFailure on a connection failure, a timeout or a response that is cut off, on a rate limit or an outage unless the server
 * advises against a retry, and whenever the server asks for one. Throws `endpoint-refused` if a response is too large, or a successful one is
 * not JSON.
 */
export async function attemptRequest(fetch: Fetch, attempt: RequestAttempt): Promise<HttpAnswer> {
  const { method, url, init, timeoutSeconds, signal } = attempt;
  const timeout = AbortSignal.timeout(timeoutSeconds * 1000);
  const redact = redactor([new Headers(init.headers).get(KEY_HEADER) ?? ""]);
  try {
    return await withAnySignal([signal, timeout], async (either) => {
      const response = await fetch(url, { ...init, method, redirect: "manual", signal: either });
      return readAnswer(response, method, url, redact);
    });
  } catch (cause) {
    if (signal?.aborted || cause instanceof MgrpoError || cause instanceof RetryableFailure) throw cause;
    if (timeout.aborted) {
      throw new RetryableFailure(`${method} ${url}: no response in ${timeoutSeconds} s`, { isTimeout: true, cause });
    }
    throw new RetryableFailure(`${method} ${url}: ${reasonOf(cause)}`, { cause });
  }
}

/** Printable ASCII. `fetch` rejects a line break in a header with an error that repeats the whole value. */
const HEADER_VALUE = /^[ -~]*$/;

/** Body and headers of one logical call; all its attempts share the idempotency key. */
export function requestInit(body: object | undefined, apiKey: string | undefined): RequestInit {
  const headers: Record<string, string> = { "x-idempotency-key": crypto.randomUUID() };
  if (apiKey !== undefined) headers[KEY_HEADER] = headerValue(apiKey);
  if (body === undefined) return { headers };
  return { headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
}

function headerValue(apiKey: string): string {
  const value = apiKey.trim();
  if (HEADER_VALUE.test(value)) return value;
  throw new MgrpoError(
    "config-invalid",
    "TINKER_API_KEY has a character that a header cannot carry, such as a line break: set it to the key alone",
  );
}

/** Plain HTTP would expose the key to the network. */
export function mayCarryKey(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === "https:" || LOOPBACK.test(hostname);
}

export function jsonOf(answer: HttpAnswer): unknown {
  if (answer.kind === "json") return answer.value;
  throw new MgrpoError("endpoint-refused", answer.message, { evidence: answer.status });
}

async function readAnswer(response: Response, method: string, url: string, redact: Redact): Promise<HttpAnswer> {
  const { status, headers } = response;
  const bytes = await readAtMost(response.body, MAX_RESPONSE_BYTES);
  if (!bytes) {
    const fault = `the response has more than ${MAX_RESPONSE_BYTES} bytes: is this a Tinker server?`;
    throw new MgrpoError("endpoint-refused", `${method} ${url}: ${fault}`);
  }
  const text = redact(new TextDecoder().decode(bytes));
  if (response.ok) return { kind: "json", value: method === "DELETE" ? null : readJson(text, method, url) };
  const detail = detailOf(text);
  const page = inOneLine(text).slice(0, 200) || "an empty body";
  const reason = detail === undefined ? (redirectOf(headers, redact) ?? page) : inOneLine(detail);
  const message = `${method} ${url} answered ${status}: ${reason}`;
  const advice = headers.get("x-should-retry");
  // A poll gets status 408 while its future is pending.
  const isPoll = url.endsWith("/retrieve_future");
  const isOutage = status === 429 || status >= 500 || (status === 408 && !isPoll);
  if (advice === "true" || (isOutage && advice !== "false")) {
    const afterSeconds = retryAfterSeconds((name) => headers.get(name), Date.now());
    throw new RetryableFailure(message, { afterSeconds: Math.min(afterSeconds, MAXIMUM_RETRY_AFTER_SECONDS) });
  }
  return { kind: "refused", status, message, hasDetail: detail !== undefined };
}

/** Characters of a server's text that an error repeats: of a traceback, the beginning says where it is from, the end what is wrong. */
const [FIRST_CHARACTERS, LAST_CHARACTERS] = [200, 800];

/** A server's text as part of an error, which is one line. */
export function inOneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= FIRST_CHARACTERS + LAST_CHARACTERS) return line;
  return `${line.slice(0, FIRST_CHARACTERS)} … ${line.slice(-LAST_CHARACTERS)}`;
}

/** Python writes NaN and Infinity, which JSON does not have. */
const NOT_FINITE = /[[,:]\s*-?(NaN|Infinity)\s*[\],}]/;

/** Whether a body that is not JSON may be the beginning of an object, or is empty: a proxy may close a connection before the body's end. */
const mayBeCutOff = (text: string): boolean => /^\s*(\{|$)/.test(text);

function readJson(text: string, method: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const isNotFinite = NOT_FINITE.test(text);
    if (!isNotFinite && mayBeCutOff(text)) {
      throw new RetryableFailure(`${method} ${url}: the response is cut off, or is not JSON`, { cause });
    }
    const fault = isNotFinite
      ? "the response has NaN or Infinity: lower the learning rate, or check the server's precision"
      : "the response is not JSON: is this a Tinker server?";
    throw new MgrpoError("endpoint-refused", `${method} ${url}: ${fault}`, { cause });
  }
}

function detailOf(text: string): string | undefined {
  const refusal = Refusal.safeParse(jsonOrUndefined(text));
  if (!refusal.success) return undefined;
  const { detail } = refusal.data;
  return typeof detail === "string" ? detail : detail.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; ");
}

function redirectOf(headers: Headers, redact: Redact): string | undefined {
  const location = headers.get("location");
  return location === null
    ? undefined
    : `it redirects to ${redact(location)}, which is not followed: correct the server's URL`;
}

/** undici puts the reason why a fetch failed into the cause of its error. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  const code = "code" in cause ? cause.code : undefined;
  return cause.message || String(code ?? cause.name);
}
