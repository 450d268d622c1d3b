/**
 * @file Notices that the folder of an open store is moved or deleted. The store would then answer that its table, bucket or objects are missing,
 * and new files would make another folder in the old place.
 */
import { statSync } from "node:fs";
import { MgrpoError } from "../../core/errors.ts";

const CHECK_MILLISECONDS = 500;

export interface FolderWatch {
  /** Throws if the folder is gone. */
  check(): void;
  dispose(): void;
}

/** Calls `fail` once the folder is gone. `message`: that of the error. */
export function watchFolder(folder: string, message: string, fail: (error: unknown) => void): FolderWatch {
  const check = () => {
    if (!isThere(folder)) throw new MgrpoError("not-found", message);
  };
  const timer = setInterval(() => {
    try {
      check();
    } catch (error) {
      fail(error);
    }
  }, CHECK_MILLISECONDS);
  return { check, dispose: () => clearInterval(timer) };
}

/** True also if that is not known: a network file system may fail for a moment. */
function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}
