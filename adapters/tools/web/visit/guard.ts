/**
 * @file The dispatcher that `visit` connects through. A host name is resolved once, all its addresses are checked, and the connection goes to
 * a checked one, so a later DNS answer (rebinding) has no effect. Redirects return to the caller, which treats each as a new request.
 */
import { lookup as resolve } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { Agent, buildConnector } from "undici";
import type { AddressCheck } from "./addresses.ts";

/** The host has no address, or one that is neither public nor allowed. */
export class AddressRefused extends Error {
  constructor(host: string) {
    super(`${host} is not a public host`);
  }
}

export type Resolve = typeof resolve;

const CONNECT_MILLISECONDS = 10_000;

export function guardedAgent(isAllowed: AddressCheck, lookup: Resolve = resolve): Agent {
  const checked: LookupFunction = (host, options, callback) => {
    lookup(host, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const [first] = addresses;
      if (!first || !addresses.every(({ address }) => isAllowed(address)))
        return callback(new AddressRefused(host), []);
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
  const connect = buildConnector({ lookup: checked, timeout: CONNECT_MILLISECONDS });
  return new Agent({
    connect(options, callback) {
      // A literal address in the URL is not looked up.
      const host = options.hostname.replace(/^\[|\]$/g, "");
      if (isIP(host) !== 0 && !isAllowed(host)) callback(new AddressRefused(host), null);
      else connect(options, callback);
    },
  });
}
