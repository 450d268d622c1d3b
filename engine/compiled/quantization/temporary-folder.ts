/**
 * @file A temporary folder that is deleted when its process exits. Its name has the host and the process id, so that the next process can
 * delete what a killed one left behind: `mgrpo-quantized-<host>-<pid>-<6 letters or digits>`.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

/** Containers may share the folder but not the process ids. */
const PREFIX = `mgrpo-quantized-${hostname()}-`;

export function makeTemporaryFolder(parent: string = tmpdir()): string {
  removeStale(parent);
  const folder = mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function removeStale(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const pid = /^(\d+)-[A-Za-z0-9]{6}$/.exec(name.slice(PREFIX.length))?.[1];
    const folder = join(parent, name);
    if (pid && isStale(folder, Number(pid))) rmSync(folder, { recursive: true, force: true });
  }
}

function isStale(folder: string, pid: number): boolean {
  // A link is not followed: another user's may lead to a folder of this user, who cannot delete the link.
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found || found.uid !== (process.getuid?.() ?? found.uid)) return false;
  // In a container, a restarted process may have the id of the killed one.
  if (pid === process.pid) return found.mtimeMs < Date.now() - 1000 * process.uptime();
  return !isAlive(pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
