/** @file Files that are written whole or not at all, even if the process is killed (`placeNew` has one exception). */
import { constants, copyFileSync, linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { MgrpoError } from "../../core/errors.ts";
import { makeFolder } from "../writable-folder.ts";

interface WriteOptions {
  readonly mode?: number;
  /** Fails with EEXIST if there is a file, instead of replacing it. */
  readonly isNew?: boolean;
}

export function writeAtomically(
  path: string,
  content: string | Uint8Array,
  { mode = 0o644, isNew = false }: WriteOptions = {},
): void {
  const temporary = `${path}.${process.pid}.tmp`;
  // Left by a killed process that had this id.
  rmSync(temporary, { force: true });
  try {
    writeFileSync(temporary, content, { mode, flag: "wx" });
    if (isNew) placeNew(temporary, path);
    else renameSync(temporary, path);
  } finally {
    // After a link or a failure the temporary file still exists. If the disk is full, it holds the part that was written.
    rmSync(temporary, { force: true });
  }
}

/**
 * Another process may have written the file a moment ago: a link does not replace it. Some file systems have no links: there the file is
 * copied, and a kill during the copy leaves a partial file.
 */
function placeNew(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw error;
    copyFileSync(from, to, constants.COPYFILE_EXCL);
  }
}

/** Writes a file that the user named with an option, and the folders above it. */
export function writeNamedFile(option: string, file: string, content: string): void {
  try {
    makeFolder(dirname(file));
    writeAtomically(file, content);
  } catch (cause) {
    const message = `${option} ${file} cannot be written: name a file that you can write to`;
    throw new MgrpoError("config-invalid", message, { cause });
  }
}
