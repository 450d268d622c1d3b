/** @file A server of this program listens on one address: the one that its callers use. */
import { MgrpoError } from "../../core/errors.ts";

const EVERY_ADDRESS = ["0.0.0.0", "::"];

export function requireAddress(host: string): void {
  if (EVERY_ADDRESS.includes(host))
    throw new MgrpoError(
      "config-invalid",
      `--host ${host} means every address of this machine: name the one that others connect to`,
    );
}
