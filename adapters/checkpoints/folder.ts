/** @file CheckpointSource on a local folder: each subfolder is a checkpoint. */
import type { Dirent } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type CheckpointSource, type FileState, LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";

export function openFolderSource(folder: string, largeBytes = LARGE_FILE_BYTES): CheckpointSource {
  return {
    async list(only) {
      const entries = await readdir(folder, { withFileTypes: true }).catch((cause: NodeJS.ErrnoException) => {
        const fault = cause.code === "ENOENT" ? "no such folder to watch" : `cannot be read (${cause.message})`;
        const remedy = cause.code === "ENOENT" ? "create it, or name another" : "name a folder that can be read";
        throw new MgrpoError("not-found", `${folder}: ${fault}: ${remedy}`, { cause });
      });
      const isWanted = (entry: Dirent) =>
        only === undefined
          ? entry.isDirectory()
          : entry.name === only && (entry.isDirectory() || entry.isSymbolicLink());
      const names = entries.filter(isWanted).map(({ name }) => name);
      return new Map(await Promise.all(names.map(async (name) => [name, await filesOf(join(folder, name))] as const)));
    },
    async read(name, files) {
      const read = async (file: string) => [file, await readFileOf(resolve(folder, name, file), largeBytes)] as const;
      return new Map(await Promise.all(files.map(read)));
    },
  };
}

/** Skips a file that disappears between the two calls. */
async function filesOf(folder: string): Promise<Map<string, FileState>> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
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
    const fault = gone ? "disappeared before it was read" : `cannot be read: ${(cause as Error).message}`;
    throw new MgrpoError(gone ? "not-found" : "checkpoint-damaged", `${path} ${fault}`, { cause });
  }
}
