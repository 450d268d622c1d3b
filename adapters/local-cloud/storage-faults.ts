/** @file Faults in the files of the local cloud and of the tools' cache, each with a one-line message: the path, what is wrong with it, what to do. */
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";

const RESTORE = "restore the cloud's folder from a backup, or start the run again under another name";

export function damagedStorage(path: string, fault: string, remedy = RESTORE, cause?: unknown): MgrpoError {
  return new MgrpoError("record-damaged", `${path} is damaged (${fault}): ${remedy}`, { cause });
}

/** Error codes from Node's file system, and the operating system's messages that LevelDB passes on as text: the POSIX ones, and the English ones of Windows. */
const FULL = /^(ENOSPC|EDQUOT)$|No space left on device|Disk quota exceeded|not enough space on the disk/;
/** The last pattern is what Node.js 20 reports if a recursive mkdir meets a read-only file system. */
const FORBIDDEN =
  /^(EACCES|EPERM|EROFS)$|Permission denied|Operation not permitted|Read-only file system|Access is denied|media is write protected|^ENOENT: [^\n]*, mkdir /;
/** A limit of the process (`ulimit -f`) or of the file system on the size of a file. */
const TOO_LARGE = /^EFBIG$|File too large/;
const NO_FOLDER = /^(EEXIST|ENOTDIR)$|Not a directory/;
const LEVELDB_DAMAGE = /^(LEVEL_CORRUPTION|LEVEL_IO_ERROR|LEVEL_DECODE_ERROR)$|^(Corruption|IO error): /;
/** I/O errors of LevelDB that do not mean damaged files: another process holds the lock, or this one has too many open files or too little memory. */
const NO_DAMAGE = /^LEVEL_LOCKED$|Too many open files|Cannot allocate memory/;

/** LevelDB wraps the reason why a database cannot be opened. */
const isOpenFailure = (error: Error): error is Error & { cause: Error } =>
  (error as { code?: string }).code === "LEVEL_DATABASE_NOT_OPEN" && error.cause instanceof Error;

/**
 * Translates an error of the file system or of LevelDB that means a full disk, denied access, a file that may not grow further, a file in the
 * place of a folder, or damage. Any other error is returned unchanged. `path` is used if the error names none.
 */
export function storageFault(path: string, error: unknown): unknown {
  if (isMgrpoError(error) || !(error instanceof Error)) return error;
  const fault = isOpenFailure(error) ? error.cause : error;
  const { code = "", path: at = path } = fault as NodeJS.ErrnoException;
  const is = (pattern: RegExp) => pattern.test(code) || pattern.test(fault.message);
  // Windows error messages end with a line break.
  const reason = fault.message.replace(/\s+/g, " ").trim();
  const options = { cause: error };
  if (is(FULL))
    return new MgrpoError("disk-full", `${at}: the disk is full (${reason}): free some space and resume`, options);
  if (is(FORBIDDEN))
    return new MgrpoError(
      "storage-unwritable",
      `${at}: access is denied (${reason}): let this user read and write there, or choose another folder`,
      options,
    );
  if (is(TOO_LARGE))
    return new MgrpoError(
      "storage-unwritable",
      `${at}: the file may not grow further (${reason}): raise the limit on the size of files (ulimit -f), or choose a folder on another file system`,
      options,
    );
  if (is(NO_FOLDER))
    return new MgrpoError(
      "storage-unwritable",
      `${at}: a file is where a folder should be: remove that file, or choose another folder`,
      options,
    );
  if (is(LEVELDB_DAMAGE) && !is(NO_DAMAGE)) return damagedStorage(at, reason, RESTORE, error);
  return error;
}
