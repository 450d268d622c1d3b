/**
 * @file Temporary files and folders name their process, `<prefix><host>-<pid>` and an optional suffix, so that the next process can delete what
 * a killed one left behind. Containers may share a folder but not process ids, so files of other hosts stay.
 */
import { lstatSync, readdirSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";

/** The name of this process's temporary file or folder. */
export const temporaryName = (prefix: string): string => `${prefix}${hostname()}-${process.pid}`;

/**
 * Deletes this user's files and folders in `parent` with this prefix whose process, on this host, has ended.
 * @param rest matches what follows `<prefix><host>-`; its first group is the process id.
 */
export function removeLeftovers(parent: string, prefix: string, rest: RegExp = /^(\d+)$/): void {
  const start = `${prefix}${hostname()}-`;
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(start)) continue;
    const pid = rest.exec(name.slice(start.length))?.[1];
    const path = join(parent, name);
    if (pid && isStale(path, Number(pid))) rmSync(path, { recursive: true, force: true });
  }
}

function isStale(path: string, pid: number): boolean {
  // Links are not followed: another user's link may point to a folder of this user, who cannot delete the link.
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found || found.uid !== (process.getuid?.() ?? found.uid)) return false;
  // In a container, a restarted process may have the id of the killed one.
  if (pid === process.pid) return found.mtimeMs < Date.now() - 1000 * process.uptime();
  return !hasProcess(pid);
}

/** Whether a process has this id. It may be a later process than the caller means, since ids are reused. */
export function hasProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
