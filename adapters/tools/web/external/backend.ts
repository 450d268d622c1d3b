/**
 * @file One request to a backend that answers in JSON. Whatever is not the answer is `tool-backend`, infrastructure that never becomes text
 * (design rule 4), and says in one line what to do. What another try may mend is tried again: after Retry-After where the backend names a
 * time that is worth waiting for, else with backoff.
 */
import { TokenBucket } from "limiter";
import pRetry from "p-retry";
import { Agent, fetch } from "undici";
import type { z } from "zod";
import { parseJson } from "../../../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { Clock } from "../../../../core/ports.ts";

export interface BackendRequest<T> {
  /** As it is spoken of: `Serper`. */
  readonly name: string;
  readonly url: URL;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The variable that holds its key, if it takes one. */
  readonly key?: string;
  readonly answer: z.ZodType<T>;
}

export interface Backends {
  request<T>(request: BackendRequest<T>, bucket: TokenBucket): Promise<T>;
  close(): Promise<void>;
}

const RETRIES = { retries: 4, minTimeout: 500, factor: 2, randomize: true };
/** A backend that asks for a longer pause is out for this attempt. */
const LONGEST_PAUSE_SECONDS = 30;
const REQUEST_SECONDS = 30;
const MAX_ANSWER_BYTES = 5_000_000;
const NOT_SOON = { pause: Number.POSITIVE_INFINITY };

/** A full bucket: so many requests at once, refilled evenly. */
export function openBucket(requestsPerSecond: number): TokenBucket {
  const bucketSize = Math.max(1, Math.ceil(requestsPerSecond));
  const bucket = new TokenBucket({ bucketSize, tokensPerInterval: requestsPerSecond, interval: "second" });
  bucket.content = bucketSize;
  return bucket;
}

export function openBackends({ sleep }: Pick<Clock, "sleep">, retries: typeof RETRIES = RETRIES): Backends {
  const dispatcher = new Agent({ maxResponseSize: MAX_ANSWER_BYTES });

  async function once<T>(request: BackendRequest<T>): Promise<T> {
    const { name, url, method, headers, body, answer } = request;
    const refused = (why: string, options: { retryable: boolean; cause?: unknown; evidence?: unknown }) =>
      new MgrpoError("tool-backend", `${name} at ${url.origin}: ${why}`, options);
    const call = fetch(url, {
      ...{ method, dispatcher, redirect: "error", signal: AbortSignal.timeout(REQUEST_SECONDS * 1000) },
      headers: {
        accept: "application/json",
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const { status, type, text, pause } = await call
      .then(async (response) => ({
        status: response.status,
        type: response.headers.get("content-type") ?? "no content type",
        pause: secondsOf(response.headers.get("retry-after")),
        text: await response.text(),
      }))
      .catch((cause: unknown) => {
        throw refused(`no answer (${reasonOf(cause)})`, { retryable: true, cause });
      });
    if (status >= 200 && status < 300) {
      if (/^\s*</.test(text))
        throw refused(`answered a page (${type}) where JSON was expected: check the backend's url in the settings`, {
          retryable: false,
        });
      try {
        return parseJson(answer, text, `answer of ${name} at ${url.origin}`, "tool-backend");
      } catch (cause) {
        // One odd answer must not end a run, nor will it be another a moment later: the attempt is lost.
        if (!isMgrpoError(cause)) throw cause;
        throw new MgrpoError("tool-backend", cause.message, { retryable: true, cause, evidence: NOT_SOON });
      }
    }
    const said = `HTTP ${status}${firstLine(withoutSecrets(text, headers))}`;
    const known = ADVICE.find(([codes]) => codes.includes(status));
    if (known) throw refused(`${said}: ${known[1](request.key)}`, { retryable: false });
    const plan = status === 429 ? ": it is asked more than its plan allows: lower its requestsPerSecond" : "";
    throw refused(said + plan, { retryable: status === 408 || status === 429 || status >= 500, evidence: { pause } });
  }

  return {
    request: (request, bucket) =>
      pRetry(
        async () => {
          await bucket.removeTokens(1);
          return once(request);
        },
        {
          ...retries,
          shouldRetry: ({ error }) => isMgrpoError(error) && error.retryable && pauseOf(error) <= LONGEST_PAUSE_SECONDS,
          onFailedAttempt: async ({ error, retriesLeft }) => {
            const pause = isMgrpoError(error) ? pauseOf(error) : 0;
            if (retriesLeft > 0 && pause > 0 && pause <= LONGEST_PAUSE_SECONDS) await sleep(pause);
          },
        },
      ),
    close: () => dispatcher.destroy(),
  };
}

/** Statuses that no further try mends, and what does. */
const ADVICE: readonly (readonly [readonly number[], (key: string | undefined) => string])[] = [
  [[401, 403], (key) => (key ? `it refuses the key: check ${key}` : "it forbids this: check its own settings")],
  [[402, 432, 433], (key = "its key") => `its plan or credits are used up: top them up, or give ${key} another value`],
  [[400, 404, 405, 422], () => "it does not take such requests: check the backend's url in the settings"],
];

const pauseOf = ({ evidence }: MgrpoError): number => (evidence as { pause?: number } | undefined)?.pause ?? 0;

/** Retry-After in seconds: a number, or a date. */
export function secondsOf(retryAfter: string | null): number {
  if (retryAfter === null) return 0;
  const seconds = Number(retryAfter);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(retryAfter);
  return Number.isNaN(date) ? 0 : Math.max(0, (date - Date.now()) / 1000);
}

/** What a foreign error means, in few words: the innermost cause says most. */
export function reasonOf(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.cause instanceof Error) continue;
    const { code } = cause as NodeJS.ErrnoException;
    return [code, cause.message].filter(Boolean).join(": ");
  }
  return String(error);
}

/** Some backends repeat the key that they refuse. */
function withoutSecrets(text: string, headers: Readonly<Record<string, string>>): string {
  const secrets = Object.values(headers).map((value) => value.replace(/^Bearer /, ""));
  return secrets.reduce((rest, secret) => (secret === "" ? rest : rest.replaceAll(secret, "***")), text);
}

/** Of an error's body, unless it is a page. */
function firstLine(text: string): string {
  const [line = ""] = text.trim().split("\n", 1);
  return line === "" || line.startsWith("<") ? "" : ` (${line.slice(0, 200)})`;
}
