/**
 * @file ObjectStore in a folder, one file per object: the answer cache of runs that share no store (`tools.cache.folder`). An object is
 * written to a temporary file and linked to its name: after a crash of the process an object is whole or absent, and the first writer wins.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isMgrpoError, MgrpoError } from "../../../../core/errors.ts";
import type { ObjectStore } from "../../../../core/ports.ts";
import { removeAbandoned } from "../../../abandoned-files.ts";
import { storageFault } from "../../../local-cloud/storage-faults.ts";

const TEMPORARY = /\.[0-9a-f]{12}\.part$/;

export function openFolderObjects(folder: string): ObjectStore {
  const pathOf = (key: string) => join(folder, ...key.split("/").map(fileNameOf));
  let isClean = false;

  async function translated<T>(operation: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const cause = storageFault(folder, error);
      if (isMgrpoError(cause)) throw cause;
      const { message } = cause as Error;
      throw new MgrpoError("store-unreachable", `${operation} in folder ${folder}: ${message}`, { cause });
    }
  }

  return {
    commit: (key, body) =>
      translated(`commit ${key}`, async () => {
        const path = pathOf(key);
        await mkdir(dirname(path), { recursive: true });
        if (!isClean) await removeAbandoned(folder, (path) => TEMPORARY.test(path), { recursive: true });
        isClean = true;
        return commitFile(path, body);
      }),
    get: (key) =>
      translated(`read ${key}`, async () => {
        const bytes = await read(pathOf(key));
        return bytes && Uint8Array.from(bytes);
      }),
    head: (key) =>
      translated(`look for ${key}`, () =>
        stat(pathOf(key)).then(
          ({ size }) => size,
          (error: NodeJS.ErrnoException) => {
            if (error.code === "ENOENT") return undefined;
            throw error;
          },
        ),
      ),
    delete: (keys) =>
      translated(`delete ${keys.length} objects`, async () => {
        await Promise.all(keys.map((key) => rm(pathOf(key), { force: true })));
      }),
  };
}

/** True if the file holds these bytes, whoever wrote them. */
async function commitFile(path: string, body: Uint8Array): Promise<boolean> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    await writeFile(temporary, body);
    await link(temporary, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const stored = await read(path);
    return stored !== undefined && Buffer.compare(stored, body) === 0;
  } finally {
    await rm(temporary, { force: true });
  }
}

const read = (path: string) =>
  readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });

/** A segment of a key as a file's name, which is never the folder itself or the one above. */
function fileNameOf(segment: string): string {
  return /^\.{1,2}$/.test(segment) ? segment.replaceAll(".", "%2E") : encodeURIComponent(segment);
}
