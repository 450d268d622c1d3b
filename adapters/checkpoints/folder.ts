/** @file CheckpointSource of a local folder: each folder in it is a checkpoint. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointSource } from "../../core/ports.ts";

export function openFolderSource(folder: string): CheckpointSource {
  return {
    async look() {
      const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
        throw new MgrpoError("not-found", `${folder}: no such folder to watch: make it, or give another`, { cause });
      });
      const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
      return new Map(await Promise.all(names.map(async (name) => [name, await sizes(join(folder, name))] as const)));
    },
    async read(name, files) {
      const bytes = files.map(
        async (file) => [file, Uint8Array.from(await readFile(join(folder, name, file)))] as const,
      );
      return new Map(await Promise.all(bytes));
    },
  };
}

/** A file that goes between the two calls is one that is not there. */
async function sizes(folder: string): Promise<Map<string, number>> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => !entry.isDirectory());
  const found = await Promise.all(
    files.map(async ({ name }) => [name, (await stat(join(folder, name)).catch(() => undefined))?.size] as const),
  );
  return new Map(found.flatMap(([name, size]) => (size === undefined ? [] : [[name, size] as const])));
}
