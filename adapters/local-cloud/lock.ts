/**
 * @file One process per directory. The lock is LevelDB's own, which the kernel releases with the process, however it ends. A file beside it
 * names the owner, for the message only.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Level } from "level";
import { type ErrorCode, isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { damagedStorage, storageFault } from "./storage-faults.ts";

/**
 * Directories that this process has locked. The kernel's locks are per process: a second attempt by LevelDB in the same process would
 * release the first lock.
 */
const held = new Set<string>();

/** The error for a directory that is in use. */
export interface InUse {
  readonly code: ErrorCode;
  /** What else the user can do; ends the message. */
  readonly instead: string;
}

const RUN_IN_USE: InUse = { code: "store-unreachable", instead: "choose another run" };

/** Returns a function that releases the lock. Faults of the storage are translated: a full disk, a folder that cannot be written, a damaged lock. */
export async function lockDirectory(directory: string, inUse: InUse = RUN_IN_USE): Promise<() => Promise<void>> {
  const path = resolve(directory, "lock");
  const owner = join(directory, "owner");
  if (held.has(path)) throw refusal(directory, String(process.pid), inUse);
  held.add(path);
  const lock = new Level(path);
  const release = () => lock.close().finally(() => held.delete(path));
  try {
    await lock.open();
    await writeFile(owner, String(process.pid));
  } catch (error) {
    await release();
    const { code } = ((error as Error).cause ?? error) as { code?: string };
    if (code === "LEVEL_LOCKED") throw refusal(directory, await readFile(owner, "utf8").catch(() => "unknown"), inUse);
    const fault = storageFault(path, error);
    if (!isMgrpoError(fault, "record-damaged")) throw fault;
    throw damagedStorage(path, "the lock cannot be opened", "delete this folder, which holds no data", error);
  }
  return release;
}

function refusal(directory: string, pid: string, { code, instead }: InUse): MgrpoError {
  return new MgrpoError(
    code,
    `${directory} is in use by a process (pid ${pid}): wait for it or stop it, or ${instead}`,
  );
}
