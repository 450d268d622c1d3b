/**
 * @file One request to the server of a tracker. Its response is bounded. The request's headers may hold keys under any name, so a redirect is
 * followed only within an origin, or from http to https on the same host, and only if it repeats the request.
 */
import { withAnySignal } from "../../core/any-signal.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { readAtMost } from "../../core/read-at-most.ts";
import { redactor } from "../../core/redact.ts";

export interface TrackerRequest {
  /** For messages: `MLflow at http://…`. */
  readonly server: string;
  /** The run whose metrics are sent. */
  readonly run: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of a POST. Undefined: a GET. */
  readonly body: string | Uint8Array | undefined;
}

export interface TrackerResponse {
  readonly status: number;
  /** The Content-Type header; empty if there is none. */
  readonly type: string;
  readonly body: Uint8Array;
}

const REQUEST_SECONDS = 20;
/** After decompression. The longest response, a run of MLflow, has a row per setting and per metric. */
const MAX_RESPONSE_BYTES = 16 * 2 ** 20;
const MAX_REDIRECTS = 5;
/** Statuses of redirects that repeat the request, and of those after which a POST becomes a GET. */
const [REPEATED, TURNED_INTO_GET] = [
  [307, 308],
  [301, 302, 303],
];

/** Rejects with `tracker-unavailable` if there is no response, if it is too large, or if it is a redirect that is not followed. */
export async function requestTracker(request: TrackerRequest, signal: AbortSignal): Promise<TrackerResponse> {
  const { server, run } = request;
  try {
    const timeout = AbortSignal.timeout(REQUEST_SECONDS * 1000);
    return await withAnySignal([signal, timeout], (either) => exchange(request, either));
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    const why = signal.aborted
      ? `there was no time to send everything to ${server}: \`mgrpo track ${run}\` sends the rest`
      : `${server} does not answer`;
    throw new MgrpoError("tracker-unavailable", why, { retryable: true, cause });
  }
}

async function exchange(request: TrackerRequest, signal: AbortSignal): Promise<TrackerResponse> {
  const { server, headers, body } = request;
  const sent = body === undefined ? { method: "GET" } : { method: "POST", body: Buffer.from(body) };
  let url = new URL(request.url);
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(url, { ...sent, headers, redirect: "manual", signal });
    const { status } = response;
    const next = locationOf(response, url);
    if (next === undefined) {
      const received = await readAtMost(response.body, MAX_RESPONSE_BYTES);
      if (received) return { status, type: response.headers.get("content-type") ?? "", body: received };
      const size = `${MAX_RESPONSE_BYTES >> 20} MiB`;
      throw unusable(`${server} answered ${status} with more than ${size}: check the tracker's address`);
    }
    await response.body?.cancel();
    const isRepeated = REPEATED.includes(status) || body === undefined;
    if (!isRepeated || !mayFollow(url, next) || redirects === MAX_REDIRECTS) {
      const target = redactor(Object.values(headers))(next.origin + next.pathname);
      const advice = "set the tracker's address to that of the server that takes the requests";
      throw unusable(`${server} redirects to ${target} (${status}), which is not followed: ${advice}`);
    }
    url = next;
  }
}

const unusable = (message: string) => new MgrpoError("tracker-unavailable", message);

/** Where a redirect leads; undefined for any other response. */
function locationOf({ status, headers }: Response, url: URL): URL | undefined {
  const location = headers.get("location") ?? "";
  const isRedirect = REPEATED.includes(status) || TURNED_INTO_GET.includes(status);
  return isRedirect && location !== "" && URL.canParse(location, url.href) ? new URL(location, url) : undefined;
}

const mayFollow = (from: URL, to: URL): boolean =>
  to.origin === from.origin || (from.protocol === "http:" && to.protocol === "https:" && to.hostname === from.hostname);
