/**
 * @file One request to a backend that responds with JSON. Any failure is `tool-backend`: an infrastructure failure, which never becomes text
 * for the agent and whose message is one line. Retryable failures are retried with backoff, which begins after
 * Retry-After. There is no further attempt if Retry-After exceeds MAX_PAUSE_SECONDS, or after a response of an unexpected form.
 */
import { TokenBucket } from "limiter";
import pRetry from "p-retry";
import { Agent, fetch, Headers, type Response } from "undici";
import type { z } from "zod";
import { parseJson } from "../../../../core/contracts/parse.ts";
import { errorChain, isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { Clock } from "../../../../core/ports.ts";
import { readAtMost } from "../../../../core/read-at-most.ts";
import type { Redact } from "../../../../core/redact.ts";
import { retryAfterSeconds } from "../../../../core/retry-after.ts";
import { toWellFormedJson } from "../../../../core/well-formed.ts";

export interface BackendRequest<T> {
  /** For messages: `Serper`. */
  readonly name: string;
  readonly url: URL;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The environment variable that holds its key, if it needs one. */
  readonly keyVariable?: string;
  /** Of the response. */
  readonly schema: z.ZodType<T>;
}

export interface Backends {
  request<T>(request: BackendRequest<T>, bucket: TokenBucket): Promise<T>;
  /** Requests that are waiting for a retry, and later ones, reject with `canceled`. */
  close(): Promise<void>;
}

const RETRIES = { retries: 4, minTimeout: 500, factor: 2, randomize: true };
/** If a backend demands a longer pause, the attempt at the rollout fails. */
const MAX_PAUSE_SECONDS = 30;
const REQUEST_SECONDS = 30;
/** After decompression. */
const MAX_RESPONSE_BYTES = 5_000_000;
/** The evidence of a failure: how long to wait before a retry. */
interface Evidence {
  readonly pauseSeconds: number;
}
const NOT_SOON: Evidence = { pauseSeconds: Number.POSITIVE_INFINITY };

/** Starts full: allows a burst of one second's requests (at least one), and refills evenly. */
export function openTokenBucket(requestsPerSecond: number): TokenBucket {
  const bucketSize = Math.max(1, Math.ceil(requestsPerSecond));
  const bucket = new TokenBucket({ bucketSize, tokensPerInterval: requestsPerSecond, interval: "second" });
  bucket.content = bucketSize;
  return bucket;
}

export function openBackends(
  { sleep }: Pick<Clock, "sleep">,
  redact: Redact,
  retries: typeof RETRIES = RETRIES,
): Backends {
  const dispatcher = new Agent();
  const closing = new AbortController();
  const { signal } = closing;
  return {
    request: (request, bucket) =>
      pRetry(
        async () => {
          await bucket.removeTokens(1);
          return resultOf(request, await send(request, dispatcher, redact));
        },
        {
          ...retries,
          signal,
          shouldRetry: ({ error }) =>
            isMgrpoError(error) && error.retryable && pauseSecondsOf(error) <= MAX_PAUSE_SECONDS,
          onFailedAttempt: async ({ error, retriesLeft }) => {
            const seconds = isMgrpoError(error) && error.retryable ? pauseSecondsOf(error) : 0;
            if (retriesLeft > 0 && seconds > 0 && seconds <= MAX_PAUSE_SECONDS) await sleep(seconds, signal);
          },
        },
      ),
    close() {
      closing.abort(new MgrpoError("canceled", "the backends of the tools were closed"));
      return dispatcher.destroy();
    },
  };
}

interface Received {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  readonly pauseSeconds: number;
}

async function send(request: BackendRequest<unknown>, dispatcher: Agent, redact: Redact): Promise<Received> {
  const { url, method, body } = request;
  const headers = headersOf(request);
  try {
    const response = await fetch(url, {
      method,
      dispatcher,
      // A redirect is not followed: it would send the query, and perhaps the key, to another address.
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_SECONDS * 1000),
      headers,
      ...(body !== undefined && { body: JSON.stringify(toWellFormedJson(body)) }),
    });
    return {
      status: response.status,
      type: response.headers.get("content-type") ?? "no content type",
      pauseSeconds: retryAfterSeconds((name) => response.headers.get(name), Date.now()),
      text: redact(await textOf(response)),
    };
  } catch (cause) {
    throw failure(request, `no answer (${reasonOf(cause)})`, { retryable: true, cause });
  }
}

async function textOf({ body }: Response): Promise<string> {
  const bytes = await readAtMost(body, MAX_RESPONSE_BYTES);
  if (!bytes) throw new Error(`the response exceeds ${MAX_RESPONSE_BYTES} bytes`);
  return new TextDecoder().decode(bytes);
}

/** Throws if the key cannot be sent. The error leaves out its cause, whose message could contain the key. */
function headersOf(request: BackendRequest<unknown>): Headers {
  const { headers, body, keyVariable = "its settings" } = request;
  try {
    return new Headers({
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    });
  } catch {
    throw failure(request, `its key has characters that no header can hold: check ${keyVariable}`, {
      retryable: false,
    });
  }
}

function resultOf<T>(request: BackendRequest<T>, { status, type, text, pauseSeconds }: Received): T {
  if (status >= 200 && status < 300) return parseResponse(request, type, text);
  const detail = `HTTP ${status}${firstLine(text)}`;
  const effectiveStatus = status === 400 && ACCOUNT_FAULT.test(text) ? 402 : status;
  const known = ADVICE.find(([statuses]) => statuses.includes(effectiveStatus));
  if (known) throw failure(request, `${detail}: ${known[1](request.keyVariable)}`, { retryable: false });
  const advice = status === 429 ? ": its plan does not allow this rate: lower its requestsPerSecond" : "";
  const retryable = status === 408 || status === 429 || status >= 500;
  throw failure(request, detail + advice, { retryable, evidence: { pauseSeconds } });
}

function parseResponse<T>(request: BackendRequest<T>, type: string, text: string): T {
  const { name, url, schema } = request;
  if (/^\s*</.test(text)) {
    const advice = "check the backend's url in the settings";
    throw failure(request, `responded with a page (${type}) where JSON was expected: ${advice}`, { retryable: false });
  }
  try {
    return parseJson(schema, text, `answer of ${name} at ${url.origin}`, "tool-backend");
  } catch (cause) {
    // One malformed response must not end a run, and a retry a moment later would get the same: only this attempt at the rollout fails.
    if (!isMgrpoError(cause)) throw cause;
    throw new MgrpoError("tool-backend", cause.message, { retryable: true, cause, evidence: NOT_SOON });
  }
}

function failure(
  { name, url }: Pick<BackendRequest<unknown>, "name" | "url">,
  why: string,
  options: { retryable: boolean; cause?: unknown; evidence?: unknown },
): MgrpoError {
  return new MgrpoError("tool-backend", `${name} at ${url.origin}: ${why}`, options);
}

/** With these words, Serper's 400 is about the account: it has no credits left, or is free and may not use operators such as `site:`. */
const ACCOUNT_FAULT = /not enough credits|not allowed for free accounts/i;

/** HTTP statuses that no retry fixes, and what does. */
const ADVICE: readonly (readonly [readonly number[], (keyVariable: string | undefined) => string])[] = [
  [
    [401, 403],
    (keyVariable) =>
      keyVariable ? `it refuses the key: check ${keyVariable}` : "it forbids this: check its own settings",
  ],
  [
    [402, 432, 433],
    (keyVariable = "its key") =>
      `its plan or credits do not cover this: top them up, or give ${keyVariable} another value`,
  ],
  [[301, 302, 303, 307, 308], () => "it redirects elsewhere: check the backend's url in the settings"],
  [[400, 404, 405, 422], () => "it does not accept such requests: check the backend's url in the settings"],
];

const pauseSecondsOf = ({ evidence }: MgrpoError): number =>
  (evidence as Partial<Evidence> | undefined)?.pauseSeconds ?? 0;

/** An error in a few words: its innermost cause is the most informative. */
export function reasonOf(error: unknown): string {
  const innermost = errorChain(error).at(-1);
  if (!innermost) return String(error);
  // The numeric code of a DOMException or of an MCP error says no more than its message.
  const { code } = innermost as { code?: unknown };
  return [...(typeof code === "string" ? [code] : []), innermost.message].filter(Boolean).join(": ");
}

/** The first line of an error's body, unless it is a page. */
function firstLine(text: string): string {
  const [line = ""] = text.trim().split(/[\r\n]/, 1);
  return line === "" || line.startsWith("<") ? "" : ` (${line.slice(0, 200)})`;
}
