/**
 * @file A cache of large remote files, named by the SHA-256 of their content: in $MGRPO_CACHE, or mgrpo/ in $XDG_CACHE_HOME, or
 * ~/.cache/mgrpo. A file gets its name once its last byte is written, so a process that is killed leaves no incomplete file with that name.
 * A power failure may leave one, since nothing is synced. Two processes that fetch the same file both write it; the last rename wins, with the
 * same bytes.
 */
import { createHash, randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { removeAbandoned } from "../abandoned-files.ts";
import { diskFault } from "./disk-fault.ts";

export interface CachedFile {
  readonly path: string;
  readonly sha256: string;
}

/** `add` and `linkTag` reject with `disk-full` or `storage-unwritable` if the cache cannot be written. */
export interface FileCache {
  /** The file with this hash, if it is cached. */
  find(sha256: string): Promise<CachedFile | undefined>;
  add(body: AsyncIterable<Uint8Array>): Promise<CachedFile>;
  /** The file last linked to this tag (URL, ETag and size), for a caller that does not know its hash. */
  findTag(tag: string): Promise<CachedFile | undefined>;
  linkTag(tag: string, file: CachedFile): Promise<void>;
}

export const cacheFolder = (environment: Record<string, string | undefined> = process.env): string =>
  environment["MGRPO_CACHE"] || join(environment["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "mgrpo");

export function openFileCache(folder = cacheFolder()): FileCache {
  const pointer = (tag: string) => join(folder, `of-${createHash("sha256").update(tag).digest("hex")}`);

  async function find(sha256: string): Promise<CachedFile | undefined> {
    const path = join(folder, sha256);
    return stat(path).then(
      () => ({ path, sha256 }),
      () => undefined,
    );
  }

  const translated = <T>(write: () => Promise<T>): Promise<T> =>
    write().catch((error: unknown) => {
      throw diskFault(folder, error, "MGRPO_CACHE");
    });

  return {
    find,
    add: (body) =>
      translated(async () => {
        await mkdir(folder, { recursive: true });
        await removeAbandoned(folder, (path) => path.startsWith(PARTIAL));
        return receive(folder, body);
      }),
    async findTag(tag) {
      const sha256 = await readFile(pointer(tag), "utf8").catch(() => "");
      return /^[0-9a-f]{64}$/.test(sha256) ? find(sha256) : undefined;
    },
    linkTag: (tag, { sha256 }) =>
      translated(async () => {
        const partial = partialPath(folder);
        await writeFile(partial, sha256);
        await rename(partial, pointer(tag));
      }),
  };
}

const PARTIAL = "partial-";
const partialPath = (folder: string): string => join(folder, `${PARTIAL}${randomUUID()}`);

async function receive(folder: string, body: AsyncIterable<Uint8Array>): Promise<CachedFile> {
  const partial = partialPath(folder);
  const hash = createHash("sha256");
  async function* hashed() {
    for await (const chunk of body) {
      hash.update(chunk);
      yield chunk;
    }
  }
  try {
    await pipeline(hashed, createWriteStream(partial));
    const sha256 = hash.digest("hex");
    const path = join(folder, sha256);
    await rename(partial, path);
    return { path, sha256 };
  } finally {
    await rm(partial, { force: true });
  }
}
