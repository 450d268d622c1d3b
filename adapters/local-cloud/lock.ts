/**
 * @file One process per directory. The lock is LevelDB's own, which the kernel releases with the process, however it ends. A file beside it
 * names the owner, for the message only.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Level } from "level";
import { MgrpoError } from "../../core/errors.ts";
import { damagedStorage } from "./storage-faults.ts";

/**
 * Directories that this process has locked. The kernel's locks are per process: a second attempt by LevelDB in the same process would
 * release the first lock.
 */
const held = new Set<string>();

/** Returns a function that releases the lock. */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const path = resolve(directory, "lock");
  const owner = join(directory, "owner");
  if (held.has(path)) throw inUse(directory, String(process.pid));
  held.add(path);
  const lock = new Level(path);
  const release = () => lock.close().finally(() => held.delete(path));
  try {
    await lock.open();
    await writeFile(owner, String(process.pid));
  } catch (error) {
    await release();
    const { code } = ((error as Error).cause ?? error) as { code?: string };
    if (code === "LEVEL_LOCKED") throw inUse(directory, await readFile(owner, "utf8").catch(() => "unknown"));
    if (code !== "LEVEL_CORRUPTION") throw error;
    throw damagedStorage(path, "the lock cannot be opened", "delete this folder, which holds no data", error);
  }
  return release;
}

function inUse(directory: string, pid: string): MgrpoError {
  return new MgrpoError(
    "store-unreachable",
    `${directory} is in use by a process (pid ${pid}): wait for it or stop it, or choose another run`,
  );
}
