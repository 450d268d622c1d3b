/** @file The address of a server: every notation of the wildcard address is refused, and nothing else. */
import { expect, test } from "vitest";
import { refuseWildcardAddress } from "../../cli/cloud/address.ts";
import { isMgrpoError } from "../../core/errors.ts";

const EVERY = ["0.0.0.0", "0", "0.0", "::", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", ""];
const ONE = ["127.0.0.1", "192.168.1.10", "::1", "fd00::1", "localhost", "gpu-1.example", "not a name"];

function isRefused(host: string): boolean {
  try {
    refuseWildcardAddress(host);
    return false;
  } catch (error) {
    if (isMgrpoError(error, "config-invalid")) return true;
    throw error;
  }
}

test("each notation of the wildcard address is refused, an empty one included; the address of one interface is not", () => {
  expect([...EVERY, ...ONE].filter(isRefused)).toEqual(EVERY);
});
