/**
 * @file The hub's cache on this machine, in the layout of Hugging Face's Python library, so that both share it:
 *
 *     models--<owner>--<name>/refs/<revision>              the commit of a branch or tag
 *                             blobs/<hash>                 a file's bytes; SHA-256 for large files, the git hash for others
 *                             snapshots/<commit>/<file>    a link to its blob
 *
 * Where links are not allowed, a snapshot has copies instead. Invariants: a file gets its name in `blobs` only once it is complete and its hash
 * is right; a copy gets its name in `snapshots` only once it is complete.
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import * as z from "zod";
import { isCommit } from "../../../core/contracts/hub-model.ts";
import { parseJson } from "../../../core/contracts/parse.ts";
import { removeAbandoned } from "../../abandoned-files.ts";
import { diskFault } from "../disk-fault.ts";

export interface RepositoryCache {
  /** The commit that a branch or tag pointed to when it was last looked up. */
  readRef(revision: string): Promise<string | undefined>;
  writeRef(revision: string, commit: string): Promise<void>;
  snapshot(commit: string): string;
  blob(hash: string): string;
  /** Makes a blob appear in the snapshot of a commit. */
  link(commit: string, file: string, hash: string): Promise<void>;
}

export function openRepositoryCache(cache: string, repository: string): RepositoryCache {
  const root = join(cache, `models--${repository.replace("/", "--")}`);
  const refOf = (revision: string) => join(root, "refs", revision);
  const snapshot = (commit: string) => join(root, "snapshots", commit);
  const blob = (hash: string) => join(root, "blobs", hash);
  return {
    snapshot,
    blob,
    readRef: (revision) =>
      readFile(refOf(revision), "utf8").then(
        // An interrupted write can leave an empty file.
        (text) => [text.trim()].find(isCommit),
        () => undefined,
      ),
    writeRef: (revision, commit) =>
      translated(refOf(revision), async (path) => {
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, commit);
      }),
    link: (commit, file, hash) =>
      translated(join(snapshot(commit), file), async (path) => {
        if (existsSync(path)) return;
        await mkdir(dirname(path), { recursive: true });
        await symlink(relative(dirname(path), blob(hash)), path).catch((error: NodeJS.ErrnoException) => {
          if (error.code === "EEXIST") return undefined;
          // Symbolic links are not allowed here, as for most users of Windows.
          return copyWhole(blob(hash), path);
        });
      }),
  };
}

/**
 * If the process is killed while copying, the partial copy stays beside the blob, never in the snapshot. Any later call removes partial copies
 * that are more than a day old.
 */
async function copyWhole(blob: string, path: string): Promise<void> {
  await removeAbandoned(dirname(blob), (name) => PARTIAL_COPY.test(name));
  const partial = `${blob}.${randomUUID()}.incomplete`;
  try {
    await copyFile(blob, partial);
    await rename(partial, path);
  } finally {
    await rm(partial, { force: true });
  }
}

const PARTIAL_COPY = /\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.incomplete$/;

const translated = (path: string, write: (path: string) => Promise<void>): Promise<void> =>
  write(path).catch((error: unknown) => {
    throw diskFault(path, error, "HF_HUB_CACHE");
  });

const Index = z.looseObject({ weight_map: z.record(z.string(), z.string()) });
const WEIGHTS = "model.safetensors";
const INDEX = `${WEIGHTS}.index.json`;
const ADAPTER = ["adapter_config.json", "adapter_model.safetensors"];
const MODEL = ["config.json", "tokenizer.json", "tokenizer_config.json"];

/**
 * Whether a snapshot has the files that a model or an adapter requires: the Python library may have fetched only some.
 * @param withWeights whether the weights of a model are required.
 */
export async function isCompleteSnapshot(folder: string, withWeights = true): Promise<boolean> {
  const files = new Set(await readdir(folder).catch(() => []));
  // A link can outlive its blob.
  const has = (name: string) => files.has(name) && existsSync(join(folder, name));
  if (ADAPTER.every(has)) return true;
  if (!MODEL.every(has)) return false;
  // Python's AutoTokenizer fetches all of `MODEL`, but not generation_config.json, which lists the end-of-sequence tokens.
  if (has(WEIGHTS) || (!withWeights && has("generation_config.json"))) return true;
  return has(INDEX) && shardsOf(await readFile(join(folder, INDEX))).every(has);
}

/** The names of the files that an index of weights lists. */
export const shardsOf = (index: Uint8Array): string[] => [
  ...new Set(Object.values(parseJson(Index, index, INDEX, "checkpoint-damaged").weight_map)),
];
export { INDEX as WEIGHTS_INDEX, WEIGHTS as WEIGHTS_FILE };
