/**
 * @file A temporary folder that is deleted when its process exits: `mgrpo-quantized-<host>-<pid>-<6 letters or digits>`.
 * Before one is made, those of dead processes on this host are deleted.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeLeftovers, temporaryName } from "../../checkpoint/leftovers.ts";

const PREFIX = "mgrpo-quantized-";

export function makeTemporaryFolder(parent: string = tmpdir()): string {
  removeLeftovers(parent, PREFIX, /^(\d+)-[A-Za-z0-9]{6}$/);
  const folder = mkdtempSync(join(parent, `${temporaryName(PREFIX)}-`));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
