/** @file Temporary files that killed processes left behind. */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/** One day: no live process goes this long without a write. */
const ABANDONED_MILLISECONDS = 24 * 3600 * 1000;

/**
 * Removes a folder's temporary files, except those that were written to in the last day. Folders stay, whatever their names. `isTemporary`:
 * whether a file is temporary, by its path in the folder. `recursive`: also those in its subfolders.
 */
export async function removeAbandoned(
  folder: string,
  isTemporary: (path: string) => boolean,
  { recursive = false } = {},
): Promise<void> {
  for (const name of await readdir(folder, { recursive })) {
    if (!isTemporary(name)) continue;
    const path = join(folder, name);
    // Another process may have removed or renamed it.
    const age = await stat(path).then(
      (stats) => (stats.isFile() ? Date.now() - stats.mtimeMs : 0),
      () => 0,
    );
    if (age > ABANDONED_MILLISECONDS) await rm(path, { force: true });
  }
}
