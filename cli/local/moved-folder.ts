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

/** Calls `fail` once the folder is gone, or another one is in its place: the store may make it again. `message`: that of the error. */
export function watchFolder(folder: string, message: string, fail: (error: unknown) => void): FolderWatch {
  const opened = identityOf(folder);
  const check = () => {
    const found = identityOf(folder);
    const isKnown = opened !== UNKNOWN && found !== UNKNOWN;
    if (found === undefined || (isKnown && found !== opened)) throw new MgrpoError("not-found", message);
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

/** A network file system may fail for a moment. */
const UNKNOWN = "unknown";

/** Undefined: there is no such folder. */
function identityOf(path: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false, bigint: true });
    return found && `${found.dev}:${found.ino}`;
  } catch {
    return UNKNOWN;
  }
}
