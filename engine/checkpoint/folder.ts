/** @file A checkpoint in a local folder, in the Hugging Face layout. Large files stay on disk; all others are read into memory. */
import { constants, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { LARGE_FILE_BYTES } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile, CheckpointFiles } from "../../core/ports.ts";
import { ADAPTER_CONFIG_FILE, ADAPTER_FILE } from "./adapter.ts";
import { removeLeftovers, temporaryName } from "./leftovers.ts";
import { OPTIMIZER_FILE_NAMES } from "./shards.ts";
import { INDEX_FILE, indexFileOf, MODEL_FILE } from "./tensors.ts";

/**
 * Reads all files of a folder, without subfolders and without what `writeCheckpoint` has not finished. Files above 64 MiB are not loaded: the
 * engine reads weights from disk.
 * @throws MgrpoError `not-found` when there is no such folder, `checkpoint-damaged` for a link to a missing file.
 */
export async function readCheckpoint(folder: string): Promise<CheckpointFiles> {
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== "ENOENT" && cause.code !== "ENOTDIR") throw cause;
    throw new MgrpoError("not-found", `${folder}: no such folder: give the folder of a model`, { cause });
  });
  const complete = names.filter((name) => !PARTIAL.test(name));
  const entries = await Promise.all(
    complete.map(async (name) => [name, await readOne(resolve(folder, name))] as const),
  );
  return new Map(entries.flatMap(([name, file]) => (file ? [[name, file] as const] : [])));
}

/**
 * Writes a checkpoint that `readCheckpoint`, transformers and PEFT open. Existing files of the same names are replaced. If `files` has weights,
 * the optimizer state of the folder's old weights is deleted, and the index of old shards if `model.safetensors` replaces them; all other files
 * stay. All files are written before the first is replaced, so a full disk leaves the earlier checkpoint as it is. The old weights are deleted
 * first and the new ones come last, so what a kill leaves in between has no weights and cannot be opened: it is never a mixture of two. Rejects
 * with MgrpoError `config-invalid`, before it writes, if a name is not that of a file in the folder, or if the folder has another file that
 * would be read in place of new shards, or an adapter that would be added to the new model.
 */
export async function writeCheckpoint(folder: string, files: CheckpointFiles): Promise<void> {
  const elsewhere = [...files.keys()].find((name) => name !== basename(name) || [".", "..", ""].includes(name));
  if (elsewhere !== undefined)
    throw new MgrpoError(
      "config-invalid",
      `'${elsewhere}' is no file of a checkpoint: name each file without a folder`,
    );
  // Absolute: Node.js 20 never returns from making a relative folder in a deleted working directory.
  await mkdir(resolve(folder), { recursive: true });
  await refuseOtherWeights(folder, files);
  const names = [...files.keys()];
  for (const name of names) removeLeftovers(folder, partialPrefix(name));
  const partialPath = (name: string) => join(folder, temporaryName(partialPrefix(name)));
  const rankOf = (name: string) => Number(WEIGHTS_FILES.includes(name));
  let hasRemoved = false;
  try {
    for (const [name, file] of files) await writeOne(partialPath(name), file);
    for (const name of await oldWeights(folder, files)) {
      await rm(join(folder, name));
      hasRemoved = true;
    }
    for (const name of names.toSorted((a, b) => rankOf(a) - rankOf(b)))
      await rename(partialPath(name), join(folder, name));
  } catch (error) {
    // Once old weights are gone, the new ones may be the only ones.
    if (!hasRemoved) for (const name of names) await rm(partialPath(name), { force: true });
    throw error;
  }
}

/** The files by which a reader finds the weights. */
export const WEIGHTS_FILES = [MODEL_FILE, INDEX_FILE, ADAPTER_FILE];

/** The files that the new weights replace, the optimizer's last: without weights, nothing opens them. */
async function oldWeights(folder: string, files: CheckpointFiles): Promise<string[]> {
  if (!WEIGHTS_FILES.some((name) => files.has(name))) return [];
  const present = await readdir(folder);
  // A single file also replaces shards, which nothing reads without their index.
  const isReplaced = (name: string) => files.has(name) || (name === INDEX_FILE && files.has(MODEL_FILE));
  const weights = WEIGHTS_FILES.filter((name) => present.includes(name) && isReplaced(name));
  return [...weights, ...present.filter((name) => OPTIMIZER_FILE_NAMES.test(name))];
}

const partialPrefix = (name: string) => `${name}.partial-`;
const PARTIAL = /\.partial-.+-\d+$/;

/** A single file wins over shards, and an adapter is added to the model beside it. Files that the new weights replace are not a fault. */
async function refuseOtherWeights(folder: string, files: CheckpointFiles): Promise<void> {
  const isWholeModel = files.has(MODEL_FILE) || files.has(INDEX_FILE);
  const isRead = (name: string) =>
    files.has(indexFileOf(name)) || (isWholeModel && [ADAPTER_FILE, ADAPTER_CONFIG_FILE].includes(name));
  const replaced = new Set([...files.keys(), ...(await oldWeights(folder, files))]);
  const other = (await readdir(folder)).find((name) => !replaced.has(name) && isRead(name));
  if (other === undefined) return;
  const fault = `${folder}: it has ${other}, which is not part of the checkpoint but would be read as if it were`;
  throw new MgrpoError("config-invalid", `${fault}: remove that file, or give another folder`);
}

/**
 * Clones the file where the file system supports it. `path` is temporary and renamed later: an earlier file is never written into, since it may
 * be read-only, mapped by a process, or `file` itself.
 */
async function writeOne(path: string, file: CheckpointFile): Promise<void> {
  if (file instanceof Uint8Array) await writeFile(path, file);
  else await copyFile(file.path, path, constants.COPYFILE_FICLONE);
}

/** Undefined for a folder, or a symbolic link to one. */
async function readOne(path: string): Promise<CheckpointFile | undefined> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== "ENOENT") throw cause;
    const fault = `${path}: a link to a file that does not exist: restore that file, or download the model again`;
    throw new MgrpoError("checkpoint-damaged", fault, { cause });
  });
  if (found.isDirectory()) return undefined;
  if (found.size > LARGE_FILE_BYTES) return { path, bytes: found.size };
  return Uint8Array.from(await readFile(path));
}
