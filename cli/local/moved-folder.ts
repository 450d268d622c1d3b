/**
 * @file Notices that a run's folder is moved or deleted while this process trains the run. Its store then answers that objects are missing, and
 * new files would make another folder in the old place.
 */
import { statSync } from "node:fs";
import { MgrpoError } from "../../core/errors.ts";
import { MGRPO, quoted } from "../terminal/name.ts";
import type { RunFolder } from "./run-folder.ts";

const CHECK_MILLISECONDS = 500;

export interface FolderWatch {
  /** Throws if the folder is gone. */
  check(): void;
  dispose(): void;
}

/** Calls `fail` once the folder is gone. */
export function watchFolder(folder: RunFolder, run: string, fail: (error: unknown) => void): FolderWatch {
  const check = () => {
    if (isThere(folder.cloud)) return;
    throw new MgrpoError(
      "not-found",
      `the folder of run '${run}' was moved or deleted while it trained, so training has stopped: to continue, put it back at ${folder.path} and run ${MGRPO} resume ${quoted(run)}`,
    );
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
