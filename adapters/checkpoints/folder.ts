/** @file CheckpointSource on a local folder: each subfolder is a checkpoint. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  type CheckpointListing,
  type CheckpointSource,
  type FileState,
  LARGE_FILE_BYTES,
} from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";

export function openFolderSource(folder: string, largeBytes = LARGE_FILE_BYTES): CheckpointSource {
  return {
    async list(only) {
      if (only !== undefined) return listOne(folder, only);
      const entries = await readdir(folder, { withFileTypes: true }).catch((cause: NodeJS.ErrnoException) => {
        const fault = cause.code === "ENOENT" ? "no such folder to watch" : `cannot be read (${cause.message})`;
        const remedy = cause.code === "ENOENT" ? "create it, or name another" : "name a folder that can be read";
        throw new MgrpoError("not-found", `${folder}: ${fault}: ${remedy}`, { cause });
      });
      const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
      // A folder that has disappeared since it was listed, or cannot be read, counts as empty.
      const files = (name: string) => filesOf(join(folder, name)).catch(() => new Map<string, FileState>());
      return new Map(await Promise.all(names.map(async (name) => [name, await files(name)] as const)));
    },
    async read(name, files) {
      const read = async (file: string) => [file, await readFileOf(resolve(folder, name, file), largeBytes)] as const;
      return new Map(await Promise.all(files.map(read)));
    },
  };
}

/** One subfolder, which may be a symbolic link. Empty if there is none; rejects if it cannot be read. */
async function listOne(folder: string, name: string): Promise<CheckpointListing> {
  const path = join(folder, name);
  try {
    return new Map([[name, await filesOf(path)]]);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return new Map();
    throw new MgrpoError("checkpoint-damaged", `${path} cannot be read (${message}): make it readable`, { cause });
  }
}

/** Skips a file that disappears between the two calls. */
async function filesOf(folder: string): Promise<Map<string, FileState>> {
  const entries = await readdir(folder, { withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  const stats = await Promise.all(
    files.map(async ({ name }) => [name, await stat(join(folder, name)).catch(() => undefined)] as const),
  );
  return new Map(
    stats.flatMap(([name, file]) => (file ? [[name, { bytes: file.size, stamp: String(file.mtimeMs) }] as const] : [])),
  );
}

async function readFileOf(path: string, largeBytes: number): Promise<CheckpointFile> {
  try {
    const { size: bytes } = await stat(path);
    if (path.endsWith(".safetensors") && bytes > largeBytes) return { path, bytes };
    return Uint8Array.from(await readFile(path));
  } catch (cause) {
    const gone = (cause as NodeJS.ErrnoException).code === "ENOENT";
    const fault = gone
      ? "disappeared before it was read: put it back"
      : `cannot be read (${(cause as Error).message}): make it readable`;
    throw new MgrpoError(gone ? "not-found" : "checkpoint-damaged", `${path} ${fault}`, { cause });
  }
}
