/** @file A checkpoint in a local folder, in the Hugging Face layout. Large files stay on disk; all others are read into memory. */
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { wholeFile } from "./files.ts";

/**
 * Reads all files of a folder, without subfolders. Files above 64 MiB are not loaded: the engine reads weights from disk.
 * @throws MgrpoError `not-found` when there is no such folder.
 */
export async function readCheckpoint(folder: string): Promise<CheckpointFiles> {
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== "ENOENT" && cause.code !== "ENOTDIR") throw cause;
    throw new MgrpoError("not-found", `${folder}: no such folder: give the folder of a model`, { cause });
  });
  const entries = await Promise.all(names.map(async (name) => [name, await readOne(resolve(folder, name))] as const));
  return new Map(entries.flatMap(([name, file]) => (file ? [[name, file] as const] : [])));
}

/** Writes a checkpoint that `readCheckpoint`, transformers and PEFT open. Existing files of the same names are replaced. */
export async function writeCheckpoint(folder: string, files: CheckpointFiles): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, file] of files) await writeFile(join(folder, name), wholeFile(file));
}

/** Undefined for a folder, linked ones included. */
async function readOne(path: string): Promise<CheckpointFile | undefined> {
  const found = await stat(path);
  if (found.isDirectory()) return undefined;
  if (found.size > LARGE_FILE_BYTES) return { path, bytes: found.size };
  return Uint8Array.from(await readFile(path));
}
