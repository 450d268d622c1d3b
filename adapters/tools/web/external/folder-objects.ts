/**
 * @file ObjectStore in a folder, one file per object: a cache that several embedded clouds share, and that can be archived. An object is
 * written to a temporary file and linked to its name, so it exists wholly or not at all, and the first writer wins.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MgrpoError } from "../../../../core/errors.ts";
import type { ObjectStore } from "../../../../core/ports.ts";

export function openFolderObjects(folder: string): ObjectStore {
  const pathOf = (key: string) => join(folder, ...key.split("/").map(encodeURIComponent));

  async function translated<T>(operation: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const isFull = code === "ENOSPC" || code === "EDQUOT";
      throw new MgrpoError(isFull ? "disk-full" : "store-unreachable", `${operation} in folder ${folder}: ${message}`, {
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
        const path = pathOf(key);
        const temporary = `${path}.${randomBytes(6).toString("hex")}.part`;
        await mkdir(dirname(path), { recursive: true });
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
