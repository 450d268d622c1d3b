/**
 * @file A user's first steps with both packages, from archives of this checkout: `npx create-mgrpo` in a new folder, then npm's commands in
 * the project. Needs npm's registry.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../built-module.ts";
import { MgrpoError } from "../core/errors.ts";

const ROOT = fileURLToPath(new URL("../..", builtModule("bench/new-project")));

export interface Archives {
  readonly mgrpo: string;
  readonly creator: string;
}

/** Packs mgrpo and create-mgrpo, declarations included. Throws `not-found` outside a checkout. */
export function packArchives(folder: string): Archives {
  if (!existsSync(join(ROOT, "build.mjs")))
    throw new MgrpoError("not-found", `${ROOT} is not a checkout of the repository, so there is nothing to pack`);
  const pack = (location: string) => {
    const lines = npm(location, "pack", "--ignore-scripts=false", "--pack-destination", folder, "--silent").trimEnd();
    return join(folder, lines.slice(lines.lastIndexOf("\n") + 1));
  };
  return { mgrpo: pack(ROOT), creator: pack(join(ROOT, "create")) };
}

/** Creates the project `my-team` in the folder. npx keeps the creator in a cache there. Returns the project's folder. */
export function createProject(folder: string, { mgrpo, creator }: Archives): string {
  run(folder, "npx", `--cache=${cacheIn(folder)}`, "--yes", `file:${creator}`, "my-team", "--mgrpo", mgrpo);
  return join(folder, "my-team");
}

/** An npm cache of the folder's own. */
export const cacheIn = (folder: string): string => join(folder, "npm-cache");

/** Runs an npm command to its end. Returns its stdout, and throws if it fails. */
export const npm = (cwd: string, ...args: string[]): string => run(cwd, "npm", ...args);

function run(cwd: string, command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}
