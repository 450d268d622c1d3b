/** @file Folders that a command writes to: for its results, checked before the work that would be lost, and for temporary files. */
import { mkdirSync, mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MgrpoError } from "../core/errors.ts";

/**
 * Makes the folder and its missing parents. The path is made absolute, because in a working directory that has been deleted, Node.js 20 never
 * returns from making a relative one; this way, that directory is made again at its old path.
 */
export function makeFolder(folder: string): void {
  mkdirSync(resolve(folder), { recursive: true });
}

/** Makes the folder. Throws `storage-unwritable` if it cannot be written. */
export function makeWritable(folder: string, remedy: string): void {
  const code = faultOfWriting(folder, () => makeFolder(folder));
  if (code === undefined) return;
  throw new MgrpoError("storage-unwritable", `${folder} cannot be written (${code}): ${remedy}`);
}

/** The error code of a write into the folder; undefined: it works. It tries a write, since permissions do not reveal a read-only file system. */
export function faultOfWriting(folder: string, make: () => unknown = () => {}): string | undefined {
  try {
    make();
    rmdirSync(mkdtempSync(join(folder, ".mgrpo-")));
    return undefined;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code ?? String(cause);
  }
}

/** Errors that say that a folder cannot be written, unlike those of a disk that is full. */
const UNWRITABLE = ["ENOENT", "ENOTDIR", "EACCES", "EPERM", "EROFS"];

/** Makes a folder with a new name where the system keeps temporary files. Throws `storage-unwritable` if that cannot be written. */
export function makeTemporary(prefix: string): string {
  const parent = tmpdir();
  try {
    return mkdtempSync(join(parent, prefix));
  } catch (cause) {
    const { code = "" } = cause as NodeJS.ErrnoException;
    if (!UNWRITABLE.includes(code)) throw cause;
    const message = `${parent} takes no temporary files (${code}): set TMPDIR to a folder that you can write to`;
    throw new MgrpoError("storage-unwritable", message, { cause });
  }
}
