/** @file Addresses to listen on. The embedded cloud and the dashboard each listen on a single address, which their clients use. */
import { MgrpoError } from "../../core/errors.ts";

/** In the form to which `URL` normalizes them. The last is `0.0.0.0` as an IPv4-mapped IPv6 address. */
const WILDCARD_ADDRESSES = ["0.0.0.0", "[::]", "[::ffff:0:0]"];

export function refuseWildcardAddress(host: string): void {
  if (isWildcardAddress(host))
    throw new MgrpoError(
      "config-invalid",
      `--host '${host}' means every address of this machine: name the one that others connect to`,
    );
}

/** Whether it means every address of this machine, in any notation, such as `0` or `::0`. To Node.js, an empty name means the same. */
export function isWildcardAddress(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`;
  return host === "" || (URL.canParse(url) && WILDCARD_ADDRESSES.includes(new URL(url).hostname));
}
