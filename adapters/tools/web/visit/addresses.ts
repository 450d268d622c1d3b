/**
 * @file The addresses that `visit` may open: public ones, and ranges that the settings allow. So a page cannot make it reach other
 * loopback or private addresses, or the cloud's metadata service. ipaddr.js knows the IANA registries; this file adds the few ranges that they lack.
 */
import ipaddr from "ipaddr.js";

/** Not public, although ipaddr.js calls them `unicast`: Azure's platform service (WireServer, DNS), and IPv4-compatible IPv6 addresses. */
const ALSO_INTERNAL = ["168.63.129.16/32", "::/96"];

export type AddressCheck = (address: string) => boolean;

/** @param allowed ranges (CIDR) that may be opened although they are not public. */
export function addressCheck(allowed: readonly string[]): AddressCheck {
  const isAllowed = within(allowed);
  const isInternal = within(ALSO_INTERNAL);
  return (address) => {
    const [bare = ""] = address.split("%", 1);
    if (!ipaddr.isValid(bare)) return false;
    // `process` reads an IPv4-mapped IPv6 address as the IPv4 address that a connection to it would reach.
    const parsed = ipaddr.process(bare);
    if (isAllowed(parsed)) return true;
    return parsed.range() === "unicast" && !isInternal(parsed);
  };
}

type IpAddress = ReturnType<typeof ipaddr.process>;

function within(ranges: readonly string[]): (address: IpAddress) => boolean {
  const parsed = ranges.map((range) => ipaddr.parseCIDR(range));
  return (address) =>
    parsed.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}
