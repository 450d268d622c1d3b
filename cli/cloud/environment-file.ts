/** @file Keeps the keys of `cloud serve` from other users of the machine. On Windows, file modes have no effect, so nothing is checked. */
import { closeSync, fstatSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** Permission bits of group and others. */
const GROUP_AND_OTHERS = 0o077;

/** Replaces the file with one that only its owner can read. If the file system cannot ensure that, throws before writing any secret. */
export function writePrivateFile(file: string, content: string): void {
  try {
    replacePrivately(file, content);
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    throw new MgrpoError("config-invalid", `${file} cannot be written: ${(cause as Error).message}`, { cause });
  }
}

function replacePrivately(file: string, content: string): void {
  const temporary = `${file}.${process.pid}.tmp`;
  // A killed process may have left it: in a container, the next process often has the same pid.
  rmSync(temporary, { force: true });
  const descriptor = openSync(temporary, "wx", 0o600);
  try {
    if (isOpenToOthers(descriptor)) {
      throw new MgrpoError(
        "config-invalid",
        `${file}: other users could read this file, and it would hold keys: choose a folder on a file system that supports permissions`,
      );
    }
    // On a full disk, writeSync may write only a part without an error.
    writeFileSync(descriptor, content);
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

/** Whether an open file, such as a redirected standard output, is a regular file that other users can access. */
export function isOpenToOthers(descriptor: number): boolean {
  if (process.platform === "win32") return false;
  const stats = fstatSync(descriptor);
  return stats.isFile() && (stats.mode & GROUP_AND_OTHERS) !== 0;
}
