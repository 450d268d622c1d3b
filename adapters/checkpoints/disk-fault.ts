/** @file Faults of the disk that holds a cache of model files, each as a one-line message. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

/**
 * Translates a system error (one with an `errno`), which callers get from the file system; any other is returned as it is. `path` is used if
 * the error names none. `variable`: the environment variable that sets the folder of the cache.
 */
export function diskFault(path: string, error: unknown, variable: "HF_HUB_CACHE" | "MGRPO_CACHE"): unknown {
  if (isMgrpoError(error) || !(error instanceof Error)) return error;
  const { code = "", errno, path: at = path } = error as NodeJS.ErrnoException;
  if (errno === undefined) return error;
  if (/^(EMFILE|ENFILE)$/.test(code))
    return new MgrpoError(
      "storage-unwritable",
      `${at} cannot be opened (${error.message}): raise the limit on open files (ulimit -n)`,
      { cause: error },
    );
  if (/^(ENOSPC|EDQUOT)$/.test(code)) {
    return new MgrpoError(
      "disk-full",
      `${at}: the disk, or your quota on it, is full (${code}): free some space, or set ${variable} to a folder on another disk`,
      { cause: error },
    );
  }
  const give = /^(EACCES|EPERM|EROFS)$/.test(code) ? "give this user access, or " : "";
  const what = `${at} cannot be read or written (${error.message})`;
  return new MgrpoError("storage-unwritable", `${what}: ${give}set ${variable} to another folder`, {
    cause: error,
  });
}
