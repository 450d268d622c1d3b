/** @file An http or https address without credentials, because error messages quote it; and the hosts that mean every address of a machine. */
import * as z from "zod";

export const HttpUrl = z
  .url({ protocol: /^https?$/ })
  .refine(hasNoCredentials, { error: "must not contain a user name or password" });

/** Whether a URL has neither user nor password. True for text that is not a URL. */
export function hasNoCredentials(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password } = new URL(url);
  return `${username}${password}` === "";
}

/** In the form to which `URL` normalizes them. The last is `0.0.0.0` as an IPv4-mapped IPv6 address. */
const WILDCARD_ADDRESSES = ["0.0.0.0", "[::]", "[::ffff:0:0]"];

/** Whether it means every address of this machine, in any notation, such as `0` or `::0`. To Node.js, an empty name means the same. */
export function isWildcardAddress(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`;
  return host === "" || (URL.canParse(url) && WILDCARD_ADDRESSES.includes(new URL(url).hostname));
}
