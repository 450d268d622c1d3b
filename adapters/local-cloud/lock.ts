/**
 * @file One process per directory. The lock is LevelDB's own, which the kernel drops with the process however it ends; a file beside
 * it says who holds it, for the message only.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Level } from "level";
import { MgrpoError } from "../../core/errors.ts";

/**
 * Directories this process holds. The kernel's locks are per process, and LevelDB's second try in one process would end the lock of
 * the first.
 */
const held = new Set<string>();

/** Returns what gives the lock back. */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const path = resolve(directory, "lock");
  const owner = join(directory, "owner");
  if (held.has(path)) throw inUse(directory, String(process.pid));
  held.add(path);
  const lock = new Level(path);
  try {
    await lock.open();
  } catch (cause) {
    held.delete(path);
    if (((cause as Error).cause as { code?: string } | undefined)?.code !== "LEVEL_LOCKED") throw cause;
    throw inUse(directory, await readFile(owner, "utf8").catch(() => "unknown"));
  }
  await writeFile(owner, String(process.pid));
  return () => lock.close().finally(() => held.delete(path));
}

function inUse(directory: string, pid: string): MgrpoError {
  return new MgrpoError(
    "store-unreachable",
    `${directory} is in use by a process (pid ${pid}): wait for it or stop it, or choose another run`,
  );
}
