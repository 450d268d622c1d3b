/**
 * @file Calls to a Tinker server and its futures, retried while another attempt can help.
 *
 *     a request   waits for: the response, 60 s per attempt       retried for 2 minutes: no connection, no response or one cut off, 408,
 *                                                                 429, 5xx, unless `x-should-retry` says otherwise
 *     a future    waits for: its result, 45 s per poll            fails after half an hour without one
 *
 * A call with a sequence number can be sent twice but is executed once (client.ts).
 */
import { setTimeout as sleep } from "node:timers/promises";
import pRetry from "p-retry";
import type * as z from "zod";
import { parse } from "../../../core/contracts/parse.ts";
import { MgrpoError } from "../../../core/errors.ts";
import {
  attemptRequest,
  type Fetch,
  type HttpAnswer,
  inOneLine,
  jsonOf,
  mayCarryKey,
  RetryableFailure,
  requestInit,
} from "./http.ts";
import { RequestFailed, Submitted, TryAgain } from "./messages.ts";

/** Where a Tinker server is, and how long to wait for it. Only `baseUrl` is needed. */
export interface TransportOptions {
  /** Without `/api/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
  readonly fetch?: Fetch;
  /** How long to keep retrying during an outage, pauses that the server asks for included; 0: a single attempt. Absent: 120. */
  readonly retrySeconds?: number;
  /** Pause before the second attempt; doubles, up to 10 s. Also the pause after a poll that took less than this. Absent: 0.5. */
  readonly pauseSeconds?: number;
  /** Timeout of one attempt. Absent: 60. */
  readonly requestSeconds?: number;
  /** Timeout of one poll of a future. Absent: 45. */
  readonly pollSeconds?: number;
  /** Total time to wait for a future. Absent: 1800. */
  readonly futureSeconds?: number;
  /** Called with the first failure of an outage, before it is retried. The outage ends at the next response, or when a poll times out. */
  readonly onOutage?: (failure: string) => void;
}

/** Work that a server has accepted. */
export interface Ticket {
  readonly requestId: string;
  readonly path: string;
  readonly body: object;
}

const MAXIMUM_PAUSE_SECONDS = 10;
/** Maximum number of submissions of a call: each result that expires causes another. */
const MAXIMUM_SUBMISSIONS = 3;
/** A 400 without a detail is a proxy's: the third one among a future's polls is final. A 400 from the server has a detail and is final at once. */
const MAXIMUM_PROXY_REFUSALS = 3;

/** The outcome of one poll of a future. */
type PollResult = HttpAnswer | { readonly kind: "pending" };

/** The outcome of waiting for a future. */
type FutureResult = { readonly kind: "expired" } | { readonly kind: "result"; readonly value: unknown };

export class Transport {
  readonly #baseUrl: string;
  readonly #apiKey: string | undefined;
  readonly #keyAdvice: string;
  readonly #fetch: Fetch;
  readonly #retrySeconds: number;
  readonly #pauseSeconds: number;
  readonly #requestSeconds: number;
  readonly #pollSeconds: number;
  readonly #futureSeconds: number;
  readonly #onOutage: (failure: string) => void;
  #isOutage = false;

  constructor(options: TransportOptions) {
    this.#baseUrl = options.baseUrl.replace(/\/+$/, "");
    this.#apiKey = mayCarryKey(this.#baseUrl) ? options.apiKey : undefined;
    this.#keyAdvice = adviceOnKey(options.apiKey, this.#apiKey);
    this.#fetch = options.fetch ?? fetch;
    this.#retrySeconds = options.retrySeconds ?? 120;
    this.#pauseSeconds = options.pauseSeconds ?? 0.5;
    this.#requestSeconds = options.requestSeconds ?? 60;
    this.#pollSeconds = options.pollSeconds ?? 45;
    this.#futureSeconds = options.futureSeconds ?? 1800;
    this.#onOutage = options.onOutage ?? (() => {});
  }

  /** Returns the parsed response. Rejects with `endpoint-unavailable` (retryable) once retries are exhausted, or with `endpoint-refused`. */
  async call<S extends z.ZodType>(
    path: string,
    body: object | undefined,
    schema: S,
    signal?: AbortSignal,
  ): Promise<z.infer<S>> {
    const method = body === undefined ? "GET" : "POST";
    const answer = await this.#request(method, path, body, signal);
    return parse(schema, jsonOf(answer), `response to ${method} ${this.#urlOf(path)}`, "endpoint-refused");
  }

  async delete(path: string): Promise<void> {
    jsonOf(await this.#request("DELETE", path, undefined, undefined));
  }

  /** Submits work. The server executes the work of one model in the order of submission. */
  async submit(path: string, body: object, signal?: AbortSignal): Promise<Ticket> {
    const { request_id: requestId } = await this.call(path, body, Submitted, signal);
    return { requestId, path, body };
  }

  /** Waits for the result. If it expired, submits the same bytes again. */
  async result<S extends z.ZodType>(ticket: Ticket, schema: S, signal?: AbortSignal): Promise<z.infer<S>> {
    const { path, body } = ticket;
    const what = `${path} of ${this.#baseUrl}`;
    let current = ticket;
    for (let submission = 1; ; submission++) {
      const future = await this.#retrieve(current, signal);
      if (future.kind === "result") return parse(schema, future.value, `result of ${what}`, "endpoint-refused");
      if (submission === MAXIMUM_SUBMISSIONS) {
        const message = `${what}: the result expired ${submission} times in a row, the last time that of request ${current.requestId}`;
        throw new MgrpoError("endpoint-unavailable", message, { retryable: true });
      }
      current = await this.submit(path, body, signal);
    }
  }

  /** Submits work and waits for its result. */
  async work<S extends z.ZodType>(path: string, body: object, schema: S, signal?: AbortSignal): Promise<z.infer<S>> {
    return this.result(await this.submit(path, body, signal), schema, signal);
  }

  #urlOf(path: string): string {
    return `${this.#baseUrl}/api/v1/${path}`;
  }

  async #request(
    method: string,
    path: string,
    body: object | undefined,
    signal: AbortSignal | undefined,
  ): Promise<HttpAnswer> {
    const init = requestInit(body, this.#apiKey);
    const attempt = { method, url: this.#urlOf(path), init, timeoutSeconds: this.#requestSeconds, signal };
    const answer = await this.#withRetries(() => attemptRequest(this.#fetch, attempt), signal);
    const isDenied = answer.kind === "refused" && (answer.status === 401 || answer.status === 403);
    return isDenied ? { ...answer, message: `${answer.message}: ${this.#keyAdvice}` } : answer;
  }

  async #withRetries<T>(attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const deadline = performance.now() + this.#retrySeconds * 1000;
    try {
      const result = await pRetry(attempt, {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: this.#pauseSeconds * 1000,
        maxTimeout: MAXIMUM_PAUSE_SECONDS * 1000,
        maxRetryTime: this.#retrySeconds * 1000,
        ...(signal && { signal }),
        shouldRetry: ({ error }) => error instanceof RetryableFailure,
        onFailedAttempt: async ({ error }) => {
          if (!(error instanceof RetryableFailure)) return;
          this.#noteOutage(error.message);
          const secondsLeft = Math.max(0, deadline - performance.now()) / 1000;
          await pause(Math.min(error.afterSeconds, secondsLeft), signal);
        },
      });
      this.#isOutage = false;
      return result;
    } catch (error) {
      if (!(error instanceof RetryableFailure)) throw error;
      const waited = this.#retrySeconds > 0 ? `, even after ${this.#retrySeconds} s of retries` : "";
      const message = `${error.message}${waited}: check the Tinker server, then start or resume the run`;
      throw new MgrpoError("endpoint-unavailable", message, { retryable: true, cause: error.cause });
    }
  }

  #noteOutage(failure: string): void {
    if (!this.#isOutage && this.#retrySeconds > 0) this.#onOutage(failure);
    this.#isOutage = true;
  }

  /** Polls until the future has a result, expires or fails. */
  async #retrieve({ requestId, path }: Ticket, signal: AbortSignal | undefined): Promise<FutureResult> {
    const what = `${path} of ${this.#baseUrl}`;
    const deadline = performance.now() + this.#futureSeconds * 1000;
    let proxyRefusals = 0;
    while (performance.now() < deadline) {
      const started = performance.now();
      const polled = await this.#poll(requestId, signal);
      if (polled.kind !== "pending") {
        if (polled.kind === "refused" && polled.status === 410) return { kind: "expired" };
        if (isProxyRefusal(polled)) proxyRefusals++;
        const isTransient = isProxyRefusal(polled) && proxyRefusals < MAXIMUM_PROXY_REFUSALS;
        if (!isTransient && !isPending(polled)) {
          return { kind: "result", value: resultOf(polled, `${what} (request ${requestId})`) };
        }
      }
      // A server without long polling must not be polled in a busy loop.
      if (performance.now() - started < this.#pauseSeconds * 1000) await pause(this.#pauseSeconds, signal);
    }
    throw new MgrpoError(
      "endpoint-unavailable",
      `${what}: request ${requestId} is still pending after ${this.#futureSeconds} s: check the Tinker server, then resume the run`,
      { retryable: true },
    );
  }

  /** A poll that times out means pending, not an outage. */
  async #poll(requestId: string, signal: AbortSignal | undefined): Promise<PollResult> {
    const init = requestInit({ request_id: requestId }, this.#apiKey);
    const url = this.#urlOf("retrieve_future");
    const attempt = { method: "POST", url, init, timeoutSeconds: this.#pollSeconds, signal };
    const poll = async (): Promise<PollResult> => {
      try {
        return await attemptRequest(this.#fetch, attempt);
      } catch (error) {
        if (error instanceof RetryableFailure && error.isTimeout) return { kind: "pending" };
        throw error;
      }
    };
    try {
      return await this.#withRetries(poll, signal);
    } finally {
      signal?.throwIfAborted();
    }
  }
}

function adviceOnKey(given: string | undefined, sent: string | undefined): string {
  if (given === undefined) return "no key was sent: set TINKER_API_KEY";
  if (sent === undefined) return "the key was not sent, as it goes only over https or to this machine: use https";
  return "check TINKER_API_KEY";
}

async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(seconds * 1000, undefined, signal && { signal });
}

const isProxyRefusal = (answer: HttpAnswer): boolean =>
  answer.kind === "refused" && !answer.hasDetail && answer.status === 400;

const isPending = (answer: HttpAnswer): boolean =>
  answer.kind === "json" ? TryAgain.safeParse(answer.value).success : answer.status === 408;

/** Returns the result, or throws the failure that the server reports in its place. */
function resultOf(answer: HttpAnswer, what: string): unknown {
  if (answer.kind === "refused") {
    throw new MgrpoError("endpoint-refused", `${what}: ${answer.message}`, { evidence: answer.status });
  }
  const failed = RequestFailed.safeParse(answer.value);
  if (!failed.success) return answer.value;
  const message = `${what} failed: ${inOneLine(failed.data.error)}`;
  if (failed.data.category === "user") throw new MgrpoError("endpoint-refused", message);
  throw new MgrpoError("endpoint-unavailable", message, { retryable: true });
}
