/** @file Requests to the hub, whose failures are one line each: unreachable, rate-limited, refused, or no such model. */
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import type { HubSettings } from "./settings.ts";

/** The hub refuses an expired token for every model, even for a public one. */
const INVALID_TOKEN = /invalid credentials/i;

/** Three times as long as Hugging Face's Python library waits. */
const SILENCE_SECONDS = 30;

/** A fetch for one repository, which fails if the hub falls silent. A response that the repository lacks a file is returned. */
export function hubFetch({ url }: HubSettings, repository: string): typeof fetch {
  return async (input, init) => {
    const response = await fetchWithIdleTimeout(input, init).catch((cause: unknown) => {
      throw hubUnavailable(`${url} does not answer (${requestFault(cause)})`, cause);
    });
    const { status, headers } = response;
    const fault = headers.get("X-Error-Code") ?? "";
    if (response.ok || fault === "EntryNotFound") return response;
    await response.body?.cancel();
    if (INVALID_TOKEN.test(headers.get("X-Error-Message") ?? "")) throw tokenRefused(url, status);
    throw refusal(url, repository, status, fault);
  };
}

/** Like `fetch`, but fails once nothing has arrived for SILENCE_SECONDS: neither the response's headers nor more of its body. */
const fetchWithIdleTimeout: typeof fetch = async (input, init) => {
  const silence = new AbortController();
  const abort = () => silence.abort(new Error(`nothing arrived for ${SILENCE_SECONDS} s`));
  const timer = setTimeout(abort, 1000 * SILENCE_SECONDS).unref();
  const response = await fetch(input, { ...init, signal: silence.signal });
  timer.refresh();
  const watched = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      timer.refresh();
      controller.enqueue(chunk);
    },
  });
  return response.body ? new Response(response.body.pipeThrough(watched), response) : response;
};

/** Pages of a list of files. The hub lists 1,000 files on each. */
const MAX_PAGES = 200;

/**
 * A fetch for one list of files, in which each page links to the next. Refuses a link to another origin, which would get the token, and a list
 * of too many pages.
 */
export function listFetch({ url }: HubSettings, send: typeof fetch): typeof fetch {
  const hub = new URL(url).origin;
  let pages = 0;
  return async (input, init) => {
    const { origin } = new URL(input instanceof Request ? input.url : input);
    if (origin !== hub) throw new TypeError(`a list that continues at ${origin}`);
    pages += 1;
    if (pages > MAX_PAGES) throw new TypeError(`a list of more than ${MAX_PAGES} pages`);
    return send(input, init);
  };
}

/** Runs `read`. What it cannot read, such as the web page or other JSON that a proxy or a mirror may send, is `hub-unavailable`. */
export async function readAnswer<T>({ url }: HubSettings, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    const why = requestFault(cause).replaceAll(/\s+/g, " ");
    throw hubUnavailable(`${url} does not answer like the Hugging Face Hub (${why})`, cause);
  }
}

/** `what`: a clause that says what happened, and names the hub. */
export const hubUnavailable = (what: string, cause?: unknown): MgrpoError =>
  new MgrpoError("hub-unavailable", `${what}: check the network or HF_ENDPOINT, or name a folder that has the model`, {
    retryable: true,
    cause,
  });

const tokenRefused = (url: string, status: number): MgrpoError =>
  new MgrpoError(
    "hub-refused",
    `${url} refuses the token (${status}), which is invalid or expired: set HF_TOKEN to a valid one, or unset it and run \`hf auth login\`; for a public model, \`hf auth logout\` is enough`,
  );

function refusal(url: string, repository: string, status: number, fault: string): MgrpoError {
  const name = `hf:${repository}`;
  const logIn = "set HF_TOKEN to your token, or run hf auth login";
  if (fault === "RevisionNotFound")
    return new MgrpoError("not-found", `${name} has no such revision: write a branch, a tag or a full commit hash`);
  if (fault === "GatedRepo")
    return new MgrpoError("hub-refused", `${name} is gated: accept its terms at ${url}/${repository} and ${logIn}`);
  if (fault === "RepoNotFound" || status === 404)
    return new MgrpoError(
      "not-found",
      `${name}: ${url} has no such model, or it is private: check the name, or ${logIn}`,
    );
  if (status === 401 || status === 403)
    return new MgrpoError(
      "hub-refused",
      `${name}: ${url} refuses access (${status}): it is gated or private: ${logIn}`,
    );
  if (status === 429) {
    const limited = `${url} is rate-limiting requests (429): wait a few minutes, or ${logIn}`;
    return new MgrpoError("hub-unavailable", limited, { retryable: true });
  }
  if (status >= 500) return hubUnavailable(`${url} responded with ${status}`);
  return new MgrpoError("hub-refused", `${name}: ${url} responded with ${status}: check the name and HF_ENDPOINT`);
}

/** Why a request failed: the code, or else the message, of the error's cause, or of the error itself if it has no cause. */
export function requestFault(cause: unknown): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const { code, message } = inner as { code?: string; message?: string };
  return code ?? message ?? String(inner);
}
