/**
 * @file ObjectStore as a folder, one file per object: a cache that runs of several embedded clouds share, and that fits into an archive.
 * An object is written beside its place and linked into it, so it is there wholly or not at all, and the first writer wins.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MgrpoError } from "../../../../core/errors.ts";
import type { ObjectStore } from "../../../../core/ports.ts";

export function openFolderObjects(folder: string): ObjectStore {
  const placeOf = (key: string) => join(folder, ...key.split("/").map(encodeURIComponent));

  async function translated<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const isFull = code === "ENOSPC" || code === "EDQUOT";
      throw new MgrpoError(isFull ? "disk-full" : "store-unreachable", `${doing} in folder ${folder}: ${message}`, {
        cause,
      });
    }
  }

  const read = (path: string) =>
    readFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });

  return {
    commit: (key, body) =>
      translated(`commit ${key}`, async () => {
        const path = placeOf(key);
        const temporary = `${path}.${randomBytes(6).toString("hex")}.part`;
        await mkdir(dirname(path), { recursive: true });
        try {
          await writeFile(temporary, body);
          await link(temporary, path);
          return true;
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
          const there = await read(path);
          return there !== undefined && Buffer.compare(there, body) === 0;
        } finally {
          await rm(temporary, { force: true });
        }
      }),
    get: (key) =>
      translated(`read ${key}`, async () => {
        const bytes = await read(placeOf(key));
        return bytes && Uint8Array.from(bytes);
      }),
    head: (key) =>
      translated(`look for ${key}`, () =>
        stat(placeOf(key)).then(
          ({ size }) => size,
          (error: NodeJS.ErrnoException) => {
            if (error.code === "ENOENT") return undefined;
            throw error;
          },
        ),
      ),
    delete: (keys) =>
      translated(`delete ${keys.length} objects`, async () => {
        await Promise.all(keys.map((key) => rm(placeOf(key), { force: true })));
      }),
  };
}
