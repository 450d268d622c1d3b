/** @file Addresses to listen on. The embedded cloud and the dashboard each listen on a single address, which their clients use. */
import { isWildcardAddress } from "../../core/contracts/http-url.ts";
import { MgrpoError } from "../../core/errors.ts";

export function refuseWildcardAddress(host: string): void {
  if (isWildcardAddress(host))
    throw new MgrpoError(
      "config-invalid",
      `--host '${host}' means every address of this machine: name the one that others connect to`,
    );
}
