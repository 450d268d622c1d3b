/** @file File errors that no command handles itself: a full disk, a file that may not grow, a folder without access, a misplaced file. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

const FULL = /^(ENOSPC|EDQUOT)$/;
/** A limit of the process or of the file system on the size of a file. */
const TOO_LARGE = /^EFBIG$/;
const FORBIDDEN = /^(EACCES|EPERM|EROFS)$/;
/** A path that cannot be what the command takes it for. */
const MISPLACED = /^(ENOTDIR|EISDIR|ENOTEMPTY|ENAMETOOLONG|ELOOP)$/;

/** Translates such a fault; any other error is returned as it is. Node.js names the path in its message, except after a failed read or write. */
export function fileFault(error: unknown): unknown {
  if (isMgrpoError(error) || !(error instanceof Error)) return error;
  const { code = "", syscall, message } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return error;
  const options = { cause: error };
  if (FULL.test(code))
    return new MgrpoError("disk-full", `the disk is full (${message}): free some space and try again`, options);
  if (TOO_LARGE.test(code))
    return new MgrpoError(
      "storage-unwritable",
      `a file may not grow further (${message}): raise the limit on the size of files (ulimit -f), or use another file system`,
      options,
    );
  if (FORBIDDEN.test(code))
    return new MgrpoError(
      "storage-unwritable",
      `access is denied (${message}): give this user access, or name another place`,
      options,
    );
  if (MISPLACED.test(code))
    return new MgrpoError(
      "storage-unwritable",
      `this path cannot be used (${message}): name another file or folder`,
      options,
    );
  return error;
}
