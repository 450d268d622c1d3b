/**
 * @file Who may read the dashboard. The link that `mgrpo ui` prints contains a key; the first page stores it in a cookie, so that the
 * dashboard's other URLs need no key. Requests for another host are refused, so that a web page cannot read the dashboard through a domain
 * name that it points at this machine (DNS rebinding).
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { secureHeaders } from "hono/secure-headers";

/** Cookies are shared by all ports of a host, so each server has a cookie of its own. */
const cookieOf = (port: number) => `mgrpo-ui-${port}`;

/** @param hosts names that the server is reached by, without a port, as a user writes them. */
export function requireKey(key: string, hosts: readonly string[]): MiddlewareHandler {
  const urls = hosts.map((host) => `http://${host.includes(":") ? `[${host}]` : host}`);
  // No request can be for a name that is in no URL.
  const served = urls.flatMap((url) => (URL.canParse(url) ? new URL(url).hostname : []));
  return async (context, next) => {
    const url = new URL(context.req.url);
    if (!served.includes(url.hostname)) return context.text("this host is not served", 421);
    const cookie = cookieOf(Number(url.port));
    const given = context.req.query("key");
    if (given !== undefined && isSame(given, key)) {
      setCookie(context, cookie, key, { httpOnly: true, sameSite: "Strict", path: "/" });
      url.searchParams.delete("key");
      return context.redirect(`${url.pathname}${url.search}`);
    }
    if (!isSame(getCookie(context, cookie) ?? "", key)) {
      return context.text("open the dashboard with the link that the command printed: it contains the key", 401);
    }
    return next();
  };
}

function isSame(given: string, key: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(given), hash(key));
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
