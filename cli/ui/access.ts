/**
 * @file Who may read the dashboard. The link that `mgrpo ui` prints contains a key; the first request exchanges it for a cookie, so
 * that the dashboard's other URLs need no key. A ticket, in the link with which `--open` starts the browser, does the same, once. Requests for
 * a host name that is not this server's are refused, so that a website cannot read the dashboard by pointing its domain at this machine (DNS
 * rebinding).
 */
import type { MiddlewareHandler } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { secureHeaders } from "hono/secure-headers";
import { isSameKey } from "../same-key.ts";

/** Cookies are shared by all ports of a host, so each server has a cookie of its own. */
const cookieOf = (port: number) => `mgrpo-ui-${port}`;

/** What opens the dashboard, besides the cookie. */
export interface Access {
  /** Opens it whenever it is given. */
  readonly key: string;
  /** Opens it once: the link that a browser is started with is in the list of processes, which every user of the machine can read. */
  readonly ticket?: string | undefined;
}

/** @param hosts names or addresses of the server, without a port, in any notation. */
export function requireKey({ key, ticket }: Access, hosts: readonly string[]): MiddlewareHandler {
  let unused = ticket;
  const urls = hosts.map((host) => `http://${host.includes(":") ? `[${host}]` : host}`);
  // No request can ask for a name that makes no valid URL.
  const served = urls.flatMap((url) => (URL.canParse(url) ? new URL(url).hostname : []));
  return async (context, next) => {
    const url = new URL(context.req.url);
    if (!served.includes(url.hostname))
      return context.text(
        "the dashboard is not served under this host name: use the link that the command printed",
        421,
      );
    const cookie = cookieOf(Number(url.port));
    const given = context.req.query("key");
    const isTicket = given !== undefined && unused !== undefined && isSameKey(given, unused);
    if (isTicket) unused = undefined;
    if (isTicket || (given !== undefined && isSameKey(given, key))) {
      // `Strict` would withhold it, also after this redirect, if the link was clicked on another site, such as a web terminal.
      setCookie(context, cookie, key, { httpOnly: true, sameSite: "Lax", path: "/" });
      url.searchParams.delete("key");
      return context.redirect(`${url.pathname}${url.search}`);
    }
    if (!isSameKey(getCookie(context, cookie) ?? "", key)) {
      return context.text("open the dashboard with the link that the command printed: it contains the key", 401);
    }
    return next();
  };
}

/** The pages load and send nothing beyond this server, and run no script but its own. */
export const strictHeaders: MiddlewareHandler = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    connectSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
  referrerPolicy: "no-referrer",
  strictTransportSecurity: false,
});
