/** @file Identifies the code and data of a user's recipe. A recipe of this package is identified by the package's commit and release. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../../engine/hash.ts";
import { recipeFolder } from "../../recipes/registry.ts";

/** Code, settings, prompts and data. */
const SOURCE = /\.([cm]?[jt]sx?|json|md|txt|py|csv|tsv|ya?ml|toml|xml|sql)$/;
/** Also data, except beside the recipe's own file, where `mine` and `import-traces` may write files like it. */
const LINES = /\.jsonl$/;
/** What commands write into the recipe's folder. Deeper folders with these names are the recipe's own. */
const OUTPUTS = ["models", "runs", "results", "evaluations", "mgrpo-cloud"];

/**
 * The first 12 hex digits of a SHA-256 over the names and contents of the recipe's source files. Undefined for a recipe
 * of this package.
 */
export function recipeHash(nameOrPath: string): string | undefined {
  const folder = recipeFolder(nameOrPath);
  if (folder === undefined) return undefined;
  const files = filesUnder(folder, "").map((name) => [name, sha256(readFileSync(join(folder, name)))]);
  return sha256(JSON.stringify(files)).slice(0, 12);
}

function filesUnder(folder: string, path: string): string[] {
  const entries = readdirSync(join(folder, path), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const name = path === "" ? entry.name : `${path}/${entry.name}`;
    if (entry.isDirectory()) return isExcluded(entry.name, path === "") ? [] : filesUnder(folder, name);
    const isSource = SOURCE.test(entry.name) || (path !== "" && LINES.test(entry.name));
    return isSource && isFile(join(folder, name)) ? [name] : [];
  });
}

/** A link to a file counts as that file; one that leads nowhere, or to a folder, is left out. */
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

const isExcluded = (name: string, isTop: boolean): boolean =>
  name.startsWith(".") || name === "node_modules" || (isTop && OUTPUTS.includes(name));
