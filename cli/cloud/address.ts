/** @file The embedded cloud and the dashboard listen on one address: the one that their callers use. */
import { MgrpoError } from "../../core/errors.ts";

/** As URLs write them. The last is `0.0.0.0` as an IPv6 address. */
const EVERY_ADDRESS = ["0.0.0.0", "[::]", "[::ffff:0:0]"];

export function requireAddress(host: string): void {
  if (meansEveryAddress(host))
    throw new MgrpoError(
      "config-invalid",
      `--host '${host}' means every address of this machine: name the one that others connect to`,
    );
}

/** In any notation, such as `0` or `::0`. Node.js listens on every address for an empty name too. */
function meansEveryAddress(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`;
  return host === "" || (URL.canParse(url) && EVERY_ADDRESS.includes(new URL(url).hostname));
}
