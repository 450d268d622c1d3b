/**
 * @file The release that all workers of a run must share: the package's version and a hash of the files that a worker uses, of this package and
 * of the project that MGRPO_PROJECT names. It changes with any of these files, but not with a recipe in any other folder. A checkout and a
 * package built from it have the same release, because build.mjs writes the hash into dist, which the package contains.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";

/**
 * A parent passes its release to the workers that it starts, so they all report the same one. A worker that is restarted after a build reports
 * it too, although it runs the new files.
 */
export const RELEASE_VARIABLE = "MGRPO_RELEASE";

/** Read once, so that a build while the process runs does not change it. */
let known: string | undefined;

/** `<version>+<12 hex digits>`, of this process. */
export function release(environment: Readonly<Record<string, string | undefined>>): string {
  known ??= builtRelease(environment);
  return known;
}

/** The release of a process that starts now. Unless the environment sets it, a new build may change it. */
export function builtRelease(environment: Readonly<Record<string, string | undefined>>): string {
  return environment[RELEASE_VARIABLE] || `${packageVersion()}+${buildHash()}`;
}

function buildHash(): string {
  const path = fileURLToPath(new URL("../release", builtModule("core/built")));
  if (existsSync(path)) return readFileSync(path, "utf8");
  throw new MgrpoError("not-found", `${path} is missing: build the package again (npm run build)`);
}

/** From the nearest package.json above this file, both in a checkout and in dist. */
function packageVersion(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(path)) return parseJson(z.object({ version: z.string() }), readFileSync(path), path).version;
    if (folder === dirname(folder)) {
      throw new MgrpoError("not-found", "no package.json above gpu-workers: install the package again");
    }
  }
}
