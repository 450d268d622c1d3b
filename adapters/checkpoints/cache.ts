/**
 * @file A cache of large remote files, named by the SHA-256 of their content: in $MGRPO_CACHE, or ~/.cache/mgrpo. A file gets its
 * name once its last byte is written, so a named file is complete. Two processes may fetch the same file.
 */
import { createHash, randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

export interface CachedFile {
  readonly path: string;
  readonly sha256: string;
}

export interface FileCache {
  /** The file with this hash, if it is cached. */
  find(sha256: string): Promise<CachedFile | undefined>;
  add(body: AsyncIterable<Uint8Array>): Promise<CachedFile>;
  /** The file of an object's version, for a caller that does not know its hash. */
  findVersion(version: string): Promise<CachedFile | undefined>;
  linkVersion(version: string, file: CachedFile): Promise<void>;
}

/** A day: no fetch is still writing to a file this old. */
const ABANDONED_MILLISECONDS = 24 * 3600 * 1000;

export const cacheFolder = (environment: Record<string, string | undefined> = process.env): string =>
  environment["MGRPO_CACHE"] ?? join(environment["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "mgrpo");

export function openFileCache(folder = cacheFolder()): FileCache {
  const pointer = (version: string) => join(folder, `of-${createHash("sha256").update(version).digest("hex")}`);

  async function find(sha256: string): Promise<CachedFile | undefined> {
    const path = join(folder, sha256);
    return stat(path).then(
      () => ({ path, sha256 }),
      () => undefined,
    );
  }

  /** Removes what killed processes left behind. */
  async function dropAbandoned(): Promise<void> {
    for (const name of await readdir(folder)) {
      if (!name.startsWith("partial-")) continue;
      const path = join(folder, name);
      const age = await stat(path).then(
        ({ mtimeMs }) => Date.now() - mtimeMs,
        () => 0,
      );
      if (age > ABANDONED_MILLISECONDS) await rm(path, { force: true });
    }
  }

  return {
    find,
    async add(body) {
      await mkdir(folder, { recursive: true });
      await dropAbandoned();
      const partial = join(folder, `partial-${randomUUID()}`);
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
    },
    async findVersion(version) {
      const sha256 = await readFile(pointer(version), "utf8").catch(() => "");
      return /^[0-9a-f]{64}$/.test(sha256) ? find(sha256) : undefined;
    },
    async linkVersion(version, { sha256 }) {
      const partial = join(folder, `partial-${randomUUID()}`);
      await writeFile(partial, sha256);
      await rename(partial, pointer(version));
    },
  };
}
