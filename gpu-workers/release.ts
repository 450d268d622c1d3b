/**
 * @file The release that workers of a run must share: the package's version, and a hash of the files that a worker executes, so that
 * two states of one checkout are two releases. The same whether they lie in a checkout or in an archive that was unpacked, but TypeScript
 * and what is compiled from it are two.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";

/** A parent hands its own to its workers, which then need not read all files again. */
export const RELEASE_VARIABLE = "MGRPO_RELEASE";

/** Whatever a worker runs, or is decided by. */
const FOLDERS = ["core", "adapters", "gpu-workers", "recipes"];
const FILE = /(?<!\.d)\.(ts|m?js|md)$/;

let known: string | undefined;

/** `<version>+<12 hex digits>`, of this process. Some milliseconds unless the environment says it. */
export function release(environment: Readonly<Record<string, string | undefined>>): string {
  known ??= environment[RELEASE_VARIABLE] || `${packageVersion()}+${hashOf(here)}`;
  return known;
}

const here = dirname(fileURLToPath(import.meta.url));

/** First 12 hex digits of the SHA-256 of names and contents: of the folders beside this one, or, in a bundle, of all that it came with. */
export function hashOf(folder: string): string {
  const root = existsSync(join(folder, "../core")) ? dirname(folder) : folder;
  const hash = createHash("sha256");
  const add = (path: string) => {
    const entries = readdirSync(`${root}/${path}`, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const inside = `${path}/${entry.name}`;
      if (entry.isDirectory()) add(inside);
      else if (FILE.test(entry.name)) {
        const content = readFileSync(`${root}/${inside}`);
        hash.update(`${inside} ${content.length}\n`).update(content);
      }
    }
  };
  for (const path of root === folder ? ["."] : FOLDERS) add(path);
  return hash.digest("hex").slice(0, 12);
}

/** From the package.json above this file, which is there both in a checkout and in dist. */
function packageVersion(): string {
  for (let folder = here; ; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(path)) return parseJson(z.object({ version: z.string() }), readFileSync(path), path).version;
    if (folder === dirname(folder))
      throw new MgrpoError("not-found", "no package.json above gpu-workers: install the package again");
  }
}
