/** @file A server of this program listens on one address: the one that its callers use. */
import { MgrpoError } from "../../core/errors.ts";

/** Empty, as from an unset variable of the shell, means the same to Node.js. */
const EVERY_ADDRESS = ["", "0.0.0.0", "::"];

export function requireAddress(host: string): void {
  if (EVERY_ADDRESS.includes(host))
    throw new MgrpoError(
      "config-invalid",
      `--host ${host === "" ? "''" : host} means every address of this machine: name the one that others connect to`,
    );
}
