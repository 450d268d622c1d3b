/** @file The address that a server listens on: the wildcard address is refused in every notation, and nothing else is. */
import { expect, test } from "vitest";
import { refuseWildcardAddress } from "../../cli/cloud/address.ts";
import { isMgrpoError } from "../../core/errors.ts";

const WILDCARD = ["0.0.0.0", "0", "0.0", "::", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", ""];
const OTHERS = ["127.0.0.1", "192.168.1.10", "::1", "fd00::1", "localhost", "gpu-1.example", "not a name"];

function isRefused(host: string): boolean {
  try {
    refuseWildcardAddress(host);
    return false;
  } catch (error) {
    if (isMgrpoError(error, "config-invalid")) return true;
    throw error;
  }
}

test("every notation of the wildcard address is refused, an empty host included; no other host is", () => {
  expect([...WILDCARD, ...OTHERS].filter(isRefused)).toEqual(WILDCARD);
});
