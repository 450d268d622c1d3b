/**
 * @file Fetches one page from the public internet and trusts nothing in it. A fault of the site (404, a redirect loop, 200 MB, a slow body)
 * is a result: the reason why there is no document. A fault of this machine or its network is `tool-backend`.
 *
 *     address ──check──> connect ──3xx──> address …          at most `redirects`, none twice
 *                           └──2xx──> body, decompressed     at most `maxBytes`, and `seconds` for all of it
 */
import { lookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import { type Dispatcher, fetch, type Response } from "undici";
import { errorChain, MgrpoError } from "../../../../core/errors.ts";
import { readAtMost } from "../../../../core/read-at-most.ts";
import { reasonOf } from "../external/backend.ts";
import type { VisitSettings } from "../settings.ts";
import { AddressRefused } from "./guard.ts";
import type { LeakageGuard } from "./leakage.ts";

export type FetchOutcome =
  | { readonly kind: "document"; readonly url: URL; readonly type: string; readonly bytes: Uint8Array }
  /** `why`: for the agent. `isRetryable`: a retry may succeed. */
  | { readonly kind: "none"; readonly why: string; readonly isRetryable?: boolean }
  /** The leakage guard withholds the page. */
  | { readonly kind: "blocked" };

export interface FetchOptions extends Pick<VisitSettings, "maxBytes" | "seconds" | "redirects"> {
  readonly dispatcher: Dispatcher;
  readonly guard: LeakageGuard;
  /** Whether this machine resolves a name that always exists. */
  readonly resolvesNames?: () => Promise<boolean>;
}

/** Names the program, so that sites can distinguish it from a browser. */
const USER_AGENT = "Mozilla/5.0 (compatible; mgrpo)";
const ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,application/json;q=0.7,*/*;q=0.1";
const REDIRECTS = [301, 302, 303, 307, 308];

const none = (why: string, isRetryable = false): FetchOutcome => ({ kind: "none", why, isRetryable });

export async function fetchPage(address: URL, options: FetchOptions): Promise<FetchOutcome> {
  const signal = AbortSignal.timeout(Math.ceil(options.seconds * 1000));
  const seen = new Set<string>();
  let url = address;
  try {
    for (;;) {
      const refused = refusalOf(url);
      if (refused) return none(refused);
      if (options.guard.isBlocked(url)) return { kind: "blocked" };
      url.hash = "";
      if (seen.has(url.href)) return none("it redirects in a loop");
      if (seen.size > options.redirects) return none(`it redirects more than ${options.redirects} times`);
      seen.add(url.href);
      const response = await fetch(url, {
        dispatcher: options.dispatcher,
        redirect: "manual",
        signal,
        headers: { "user-agent": USER_AGENT, accept: ACCEPT, "accept-language": "en,*;q=0.5" },
      });
      const next = REDIRECTS.includes(response.status) ? locationOf(response) : null;
      if (next === null) return await read(response, url, options.maxBytes);
      await response.body?.cancel();
      if (!URL.canParse(next, url.href)) return none("it redirects to an invalid address");
      url = new URL(next, url);
    }
  } catch (error) {
    if (signal.aborted) return none(`it took more than ${options.seconds} seconds`, true);
    return await failure(error, url, options.resolvesNames ?? resolvesRootServer);
  }
}

/** Some sites send raw UTF-8, which arrives in the header as one character per byte. Browsers and curl percent-encode those bytes. */
function locationOf({ headers }: Response): string | null {
  const location = headers.get("location");
  return location?.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`) ?? null;
}

/** Why an address is refused without a request. */
function refusalOf({ protocol, username, password }: URL): string | undefined {
  if (protocol !== "http:" && protocol !== "https:")
    return `only http and https addresses can be opened, not ${protocol}`;
  return username || password ? "an address with a user name or password is not opened" : undefined;
}

async function read(response: Response, url: URL, maxBytes: number): Promise<FetchOutcome> {
  const { status, body } = response;
  const type = response.headers.get("content-type") ?? "";
  const tooLarge = none(`it is larger than ${maxBytes} bytes`);
  const refused =
    status < 200 || status > 299
      ? none(`the site answers HTTP ${status}`, status === 408 || status === 425 || status === 429 || status >= 500)
      : Number(response.headers.get("content-length") ?? 0) > maxBytes
        ? tooLarge
        : undefined;
  if (refused || !body) {
    await body?.cancel();
    return refused ?? none("it is empty");
  }
  const bytes = await readAtMost(body, maxBytes);
  return bytes ? { kind: "document", url, type, bytes } : tooLarge;
}

/** Faults of this machine or its network, not of the site. */
const LOCAL_FAULTS = ["EAI_AGAIN", "ENETUNREACH", "ENETDOWN", "EMFILE", "ENFILE", "EADDRNOTAVAIL"];
/** For an IPv6 address, these say nothing about the rest of the internet: this machine may have only IPv4. */
const NO_ROUTE = ["ENETUNREACH", "EADDRNOTAVAIL"];

/** A host with several addresses fails with an error for each, in an `AggregateError`. */
function isLocalFault(error: Error): boolean {
  if (error instanceof AggregateError)
    return error.errors.some((one: unknown) => one instanceof Error && isLocalFault(one));
  const { code = "", address = "" } = error as NodeJS.ErrnoException & { readonly address?: string };
  return LOCAL_FAULTS.includes(code) && !(NO_ROUTE.includes(code) && isIPv6(address));
}

const resolvesRootServer = () =>
  lookup("a.root-servers.net").then(
    () => true,
    () => false,
  );

async function failure(
  error: unknown,
  { hostname }: URL,
  resolvesNames: () => Promise<boolean>,
): Promise<FetchOutcome> {
  for (const cause of errorChain(error)) {
    if (cause instanceof AddressRefused) return none(cause.message);
    const { code } = cause as NodeJS.ErrnoException;
    // A domain whose own name servers fail causes EAI_AGAIN too.
    if (code === "EAI_AGAIN" && (await resolvesNames())) return none(`the name ${hostname} cannot be resolved`, true);
    if (isLocalFault(cause)) {
      throw new MgrpoError(
        "tool-backend",
        `visit ${hostname}: this machine cannot reach the internet (${reasonOf(error)})`,
        {
          retryable: true,
          cause: error,
        },
      );
    }
    if (code === "UND_ERR_DESTROYED" || code === "UND_ERR_CLOSED")
      throw new MgrpoError("canceled", `visit ${hostname}: this program is ending`, { cause: error });
    if (code === "ENOTFOUND") return none(`there is no host ${hostname}`);
  }
  return none(`the site cannot be reached (${shortReason(error)})`, true);
}

/** Only the code: messages contain addresses and ports, which differ between attempts. */
function shortReason(error: unknown): string {
  let code = "connection failed";
  for (const cause of errorChain(error)) code = (cause as NodeJS.ErrnoException).code ?? code;
  return code;
}
