/** @file How the user starts this program, for hints that can be copied: every command in a hint begins with MGRPO. */
import { existsSync } from "node:fs";
import { delimiter, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { builtModule } from "../../built-module.ts";

/** The compiled entry point: in a checkout it is under dist/, which is next to build.mjs. */
const ENTRY = fileURLToPath(builtModule("cli/mgrpo"));

export const MGRPO = commandName(process.env, process.cwd());

/**
 * npm runs the scripts of a checkout in its root, so anywhere else the entry point is named by its path. An installed package is
 * started by name if the shell finds it, and otherwise by npx. Under npm, PATH proves nothing, since npm adds folders that the user's
 * shell lacks.
 */
export function commandName(environment: NodeJS.ProcessEnv, cwd: string, entry = ENTRY): string {
  const root = resolve(entry, "../../..");
  if (existsSync(join(root, "build.mjs"))) {
    return cwd === root ? "npm run mgrpo --" : `node ${quotedPath(relative(cwd, entry))}`;
  }
  const { PATH = "", npm_command } = environment;
  const isOnPath = PATH.split(delimiter).some((folder) => existsSync(join(folder, "mgrpo")));
  return isOnPath && npm_command === undefined ? "mgrpo" : "npx mgrpo";
}

/**
 * In double quotes if a shell would not take it as one word: POSIX shells, cmd and PowerShell all accept them. A backslash comes before the
 * characters that POSIX shells expand even there. An exclamation mark, which Bash and Zsh expand there too, needs single quotes.
 */
export function quotedPath(path: string): string {
  if (path.includes("!") && process.platform !== "win32") return quoted(path);
  return /^[\p{L}\p{M}\p{N}_./\\:@%+=,-]+$/u.test(path) ? path : `"${path.replaceAll(/["$`]/g, "\\$&")}"`;
}

/** A word of a command line, quoted for a POSIX shell if it needs to be. */
export function quoted(word: string): string {
  return /^[\w./=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
