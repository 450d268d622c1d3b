/** @file Folders that a command writes its results to, checked before the work that would be lost. */
import { mkdirSync, mkdtempSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { MgrpoError } from "../core/errors.ts";

/** Makes the folder. Throws `storage-unwritable` if it cannot be written: it tries, since permissions do not reveal a read-only file system. */
export function makeWritable(folder: string, remedy: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    rmdirSync(mkdtempSync(join(folder, ".mgrpo-")));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new MgrpoError("storage-unwritable", `${folder} cannot be written (${code}): ${remedy}`);
  }
}
