/**
 * @file HTTP to a Tinker server: one request, tried again while that can help, and futures.
 *
 *     a request   waits for: the answer, 60 s a try              tried again, for 2 minutes: no connection, no answer, 408, 429, 5xx
 *     a future    waits for: its result, polled for 45 s a time   ends after half an hour without one
 *
 * What has a sequence number may be sent twice and is done once (client.ts). The key goes over TLS or to this machine only, never
 * to where a redirect points, and is in no message.
 */
import { setTimeout as sleep } from "node:timers/promises";
import pRetry from "p-retry";
import type * as z from "zod";
import { parse } from "../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../core/errors.ts";
import { Refusal, RequestFailed, Submitted, TryAgain } from "./messages.ts";

export interface TransportOptions {
  /** Without `/api/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** How long an outage is waited out. */
  readonly patienceSeconds?: number;
  /** Pause before the second try; doubles, up to 10 s. */
  readonly pauseSeconds?: number;
  /** One try of one request. */
  readonly requestSeconds?: number;
  /** One look at a future. */
  readonly pollSeconds?: number;
  /** A future altogether. */
  readonly futureSeconds?: number;
}

export interface Transport {
  /** The parsed answer. `endpoint-unavailable` (retryable) when patience ends, `endpoint-refused` when no other try can help. */
  call<S extends z.ZodType>(
    path: string,
    body: object | undefined,
    schema: S,
    signal?: AbortSignal,
  ): Promise<z.infer<S>>;
  /** Hands in work; what is handed in next is done after it. */
  submit(path: string, body: object, signal?: AbortSignal): Promise<Ticket>;
  /** Waits for its result. A result that expired is asked for anew, byte for byte as before. */
  result<S extends z.ZodType>(ticket: Ticket, schema: S, signal?: AbortSignal): Promise<z.infer<S>>;
  /** Both. */
  work<S extends z.ZodType>(path: string, body: object, schema: S, signal?: AbortSignal): Promise<z.infer<S>>;
  delete(path: string): Promise<void>;
}

/** Work that a server has taken on. */
export interface Ticket {
  readonly requestId: string;
  readonly path: string;
  readonly body: object;
}

const LONGEST_PAUSE_SECONDS = 10;
const SUBMISSIONS = 3;
/** A proxy may answer a poll with a 400 of its own; a server's has a detail and is the end. */
const BARE_REFUSALS = 3;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** What one try came to. */
type Answer =
  | { readonly kind: "json"; readonly value: unknown }
  | { readonly kind: "failed"; readonly status: number; readonly line: string; readonly bare: boolean };

/** Thrown inside, to be tried again; `afterSeconds` as the server asks. */
class Again extends Error {
  readonly afterSeconds: number;
  readonly timedOut: boolean;
  constructor(message: string, { afterSeconds = 0, timedOut = false, cause }: AgainOptions = {}) {
    super(message, { cause });
    this.afterSeconds = afterSeconds;
    this.timedOut = timedOut;
  }
}

interface AgainOptions {
  readonly afterSeconds?: number;
  readonly timedOut?: boolean;
  readonly cause?: unknown;
}

export function openTransport(options: TransportOptions): Transport {
  const { fetch: send = fetch, patienceSeconds = 120, pauseSeconds = 0.5 } = options;
  const { requestSeconds = 60, pollSeconds = 45, futureSeconds = 1800 } = options;
  const baseUrl = options.baseUrl.replace(/\/+$/, "");
  const key = mayCarryKey(baseUrl) ? options.apiKey : undefined;
  const urlOf = (path: string) => `${baseUrl}/api/v1/${path}`;

  async function once(method: string, path: string, init: RequestInit, seconds: number, signal?: AbortSignal) {
    const url = urlOf(path);
    const timeout = AbortSignal.timeout(seconds * 1000);
    try {
      const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
      const response = await send(url, { ...init, method, redirect: "error", signal: either });
      return await readAnswer(response, method, url);
    } catch (cause) {
      if (signal?.aborted || cause instanceof MgrpoError || cause instanceof Again) throw cause;
      if (timeout.aborted)
        throw new Again(`${method} ${url}: no answer within ${seconds} s`, { timedOut: true, cause });
      throw new Again(`${method} ${url}: ${reasonOf(cause)}`, { cause });
    }
  }

  /** Tried again for as long as patience lasts. */
  async function patiently<T>(attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    try {
      return await pRetry(attempt, {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: pauseSeconds * 1000,
        maxTimeout: LONGEST_PAUSE_SECONDS * 1000,
        maxRetryTime: patienceSeconds * 1000,
        ...(signal && { signal }),
        shouldRetry: ({ error }) => error instanceof Again,
        onFailedAttempt: async ({ error }) => {
          if (error instanceof Again) await sleep(error.afterSeconds * 1000, undefined, signal && { signal });
        },
      });
    } catch (error) {
      if (!(error instanceof Again)) throw error;
      const waited = patienceSeconds > 0 ? `, also after ${patienceSeconds} s of trying` : "";
      const message = `${error.message}${waited}: look at the Tinker server, then start or resume the run`;
      throw new MgrpoError("endpoint-unavailable", message, { retryable: true, cause: error.cause });
    }
  }

  /** One key per logical call, kept over its tries. */
  function requestOf(body: object | undefined): RequestInit {
    const headers: Record<string, string> = { "x-idempotency-key": crypto.randomUUID() };
    if (key !== undefined) headers["x-api-key"] = key;
    if (body === undefined) return { headers };
    return { headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
  }

  async function call<S extends z.ZodType>(path: string, body: object | undefined, schema: S, signal?: AbortSignal) {
    const method = body === undefined ? "GET" : "POST";
    const init = requestOf(body);
    const answer = await patiently(() => once(method, path, init, requestSeconds, signal), signal);
    return parse(schema, jsonOf(answer), `answer of ${method} ${urlOf(path)}`, "endpoint-refused");
  }

  /** One look at a future: its result, or why there is none yet. A look that takes too long is no outage. */
  async function look(requestId: string, signal: AbortSignal | undefined): Promise<Answer | "pending"> {
    const init = requestOf({ request_id: requestId });
    try {
      return await patiently(async () => {
        try {
          return await once("POST", "retrieve_future", init, pollSeconds, signal);
        } catch (error) {
          if (error instanceof Again && error.timedOut) return "pending";
          throw error;
        }
      }, signal);
    } finally {
      signal?.throwIfAborted();
    }
  }

  async function retrieve({ requestId, path }: Ticket, signal: AbortSignal | undefined): Promise<unknown> {
    const deadline = performance.now() + futureSeconds * 1000;
    let bare = 0;
    while (performance.now() < deadline) {
      const started = performance.now();
      const answer = await look(requestId, signal);
      if (answer !== "pending" && answer.kind === "failed" && answer.status === 410) return EXPIRED;
      const again =
        answer === "pending" ||
        (answer.kind === "failed" &&
          (answer.status === 408 || (answer.bare && answer.status === 400 && ++bare < BARE_REFUSALS))) ||
        (answer.kind === "json" && TryAgain.safeParse(answer.value).success);
      if (!again) return resultOf(answer, `${path} of ${baseUrl} (request ${requestId})`);
      // A server that does not hold the poll open is not asked without end.
      if (performance.now() - started < pauseSeconds * 1000) {
        await sleep(pauseSeconds * 1000, undefined, signal && { signal });
      }
    }
    throw new MgrpoError(
      "endpoint-unavailable",
      `${path} of ${baseUrl}: request ${requestId} is still pending after ${futureSeconds} s: look at the Tinker server, then resume the run`,
      { retryable: true },
    );
  }

  async function submit(path: string, body: object, signal?: AbortSignal): Promise<Ticket> {
    const { request_id: requestId } = await call(path, body, Submitted, signal);
    return { requestId, path, body };
  }

  async function result<S extends z.ZodType>(ticket: Ticket, schema: S, signal?: AbortSignal) {
    const { path, body } = ticket;
    let current = ticket;
    for (let submission = 1; ; submission++) {
      const value = await retrieve(current, signal);
      if (value !== EXPIRED) return parse(schema, value, `result of ${path} of ${baseUrl}`, "endpoint-refused");
      if (submission === SUBMISSIONS) {
        const message = `${path} of ${baseUrl}: the result of request ${current.requestId} expired, ${submission} times in a row`;
        throw new MgrpoError("endpoint-unavailable", message, { retryable: true });
      }
      current = await submit(path, body, signal);
    }
  }

  return {
    call,
    submit,
    result,
    async work(path, body, schema, signal) {
      return result(await submit(path, body, signal), schema, signal);
    },
    async delete(path) {
      const init = requestOf(undefined);
      jsonOf(await patiently(() => once("DELETE", path, init, requestSeconds), undefined));
    },
  };
}

const EXPIRED = Symbol("expired");

/** Plain HTTP shows the key to whoever listens. */
function mayCarryKey(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === "https:" || LOOPBACK.test(hostname);
}

async function readAnswer(response: Response, method: string, url: string): Promise<Answer> {
  const { status, headers } = response;
  const text = await response.text();
  if (response.ok) return { kind: "json", value: text === "" ? null : readJson(text, method, url) };
  const detail = detailOf(text);
  const line = `${method} ${url} answered ${status}: ${detail ?? (text.slice(0, 200) || "nothing")}`;
  const advised = headers.get("x-should-retry");
  const isPoll = url.endsWith("/retrieve_future");
  const isOutage = status === 429 || status >= 500 || (status === 408 && !isPoll);
  if (advised === "true" || (isOutage && advised !== "false")) throw new Again(line, { afterSeconds: waitOf(headers) });
  return { kind: "failed", status, line, bare: detail === undefined };
}

function readJson(text: string, method: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MgrpoError("endpoint-refused", `${method} ${url}: the answer is not JSON: is this a Tinker server?`, {
      cause,
    });
  }
}

function detailOf(text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const refusal = Refusal.safeParse(value);
  if (!refusal.success) return undefined;
  const { detail } = refusal.data;
  return typeof detail === "string" ? detail : detail.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; ");
}

/** Seconds; a server that asks for more than a minute is asked sooner. */
function waitOf(headers: Headers): number {
  const seconds = Number(headers.get("retry-after-ms") ?? Number.NaN) / 1000;
  const asked = Number.isFinite(seconds) ? seconds : Number(headers.get("retry-after") ?? 0);
  return Number.isFinite(asked) ? Math.min(Math.max(asked, 0), 60) : 0;
}

function jsonOf(answer: Answer): unknown {
  if (answer.kind === "json") return answer.value;
  throw new MgrpoError("endpoint-refused", answer.line, { evidence: answer.status });
}

/** The result itself, or the failure that the server reports in its place. */
function resultOf(answer: Answer, what: string): unknown {
  if (answer.kind === "failed")
    throw new MgrpoError("endpoint-refused", `${what}: ${answer.line}`, { evidence: answer.status });
  const failed = RequestFailed.safeParse(answer.value);
  if (!failed.success) return answer.value;
  const { error, category } = failed.data;
  if (category === "user") throw new MgrpoError("endpoint-refused", `${what} failed: ${error}`);
  throw new MgrpoError("endpoint-unavailable", `${what} failed: ${error}`, { retryable: true });
}

/** What undici hides one level down. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error
    ? cause.message || String((cause as { code?: unknown }).code ?? cause.name)
    : String(cause);
}
