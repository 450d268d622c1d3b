/**
 * @file The release that workers of a run must share: the package's version, and the hash of the files that a worker executes, so that two
 * states of one checkout are two releases. A checkout and a package that was made of it are the same: both run what build.mjs made, and
 * hashed when it did.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";

/** What a parent started its workers as: they need not look, and a build meanwhile does not part them. */
export const RELEASE_VARIABLE = "MGRPO_RELEASE";

let known: string | undefined;

/** `<version>+<12 hex digits>`, of this process. */
export function release(environment: Readonly<Record<string, string | undefined>>): string {
  known ??= environment[RELEASE_VARIABLE] || `${packageVersion()}+${hashOfFiles()}`;
  return known;
}

function hashOfFiles(): string {
  const path = fileURLToPath(new URL("./release", builtModule("built-module")));
  if (existsSync(path)) return readFileSync(path, "utf8");
  throw new MgrpoError("not-found", `${path} is missing: build the package again (npm run build)`);
}

/** From the package.json above this file, which is there both in a checkout and in dist. */
function packageVersion(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(path)) return parseJson(z.object({ version: z.string() }), readFileSync(path), path).version;
    if (folder === dirname(folder))
      throw new MgrpoError("not-found", "no package.json above gpu-workers: install the package again");
  }
}
