/**
 * @file Finds one part of a recipe by the recipe's name (`atlas`, `recipes/atlas`) or by the path of its folder: absolute, or relative to where
 * the process runs or to the user's project (`MGRPO_PROJECT`). Recipes of this repository are imported by literal specifiers, so that a bundler
 * includes them; any other folder is imported at run time.
 */
import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { errorText, MgrpoError } from "../core/errors.ts";
import { withoutExit } from "./guarded-exit.ts";

/**
 * This package's recipe folders, as source and as built. None of the paths is `.`: where this file is bundled, its own folder is the user's
 * project (build-project.mjs).
 */
const OWN_FOLDERS = ["../recipes", "../../recipes", "../dist/recipes"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

/**
 * The name of a recipe of this repository, given as its name or its path: `atlas`, `recipes/atlas`, `./recipes/atlas/`. Undefined if it is
 * none of `known`, or if the path leads to a user's recipe of the same name.
 */
export function bundledName(known: Readonly<Record<string, unknown>>, nameOrPath: string): string | undefined {
  const name = nameOrPath.replace(/^(\.\/)?recipes\//, "").replace(/\/$/, "");
  if (!Object.hasOwn(known, name)) return undefined;
  // In a release, a user's recipe has its rewards but no recipe.ts.
  const files = name === nameOrPath ? [] : ["recipe", "rewards"].map((part) => fileOfPart(nameOrPath, part));
  const file = files.find((found) => found !== undefined);
  return file === undefined || isOwn(file, name) ? name : undefined;
}

/**
 * The recipe.ts in a user's folder with the name of a recipe of this repository. The name alone does not lead to it, the path `./<name>` does.
 * Undefined: there is none.
 */
export function hiddenFile(known: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const file = Object.hasOwn(known, name) ? fileOfPart(name, "recipe") : undefined;
  return file === undefined || isOwn(file, name) ? undefined : file;
}

const isOwn = (file: string, name: string): boolean => OWN_FOLDERS.some((own) => dirname(file) === join(own, name));

/** `known`: this part of the recipes of this repository, by name. Rejects with `recipe-invalid`. */
export async function openPart<M extends object>(
  known: Readonly<Record<string, () => Promise<M>>>,
  nameOrPath: string,
  part: string & keyof M,
): Promise<M> {
  const name = bundledName(known, nameOrPath);
  const ours = name === undefined ? undefined : known[name];
  const module = ours ? await ours() : await importPart(nameOrPath, part, Object.keys(known));
  if ((module as Partial<M>)[part] !== undefined) return module as M;
  const file = fileOfPart(nameOrPath, part) ?? `${nameOrPath}/${part}.ts`;
  throw new MgrpoError("recipe-invalid", `${file} exports no '${part}': see docs/recipes.md`);
}

/** Instead of `process.exit` in a module's own code. */
const IMPORTED =
  "a module that is imported must not end the process: import the app's functions from a module that does not run the app";

async function importPart(folder: string, part: string, known: readonly string[]): Promise<object> {
  const file = fileOfPart(folder, part);
  if (file === undefined) {
    // `rollout` is opened after the recipe, which therefore exists, even if a recipe of this repository has no folder here.
    const exists = part === "rollout" || foldersOf(folder).some((path) => existsSync(path));
    const place = /[\\/]/.test(folder) && !isAbsolute(folder) ? ` in ${process.cwd()}` : "";
    const fault = exists ? `has no ${part}.ts` : `does not exist${place}`;
    const remedy =
      part === "rollout"
        ? "runner 'recipe' runs the app that rollout.ts exports: see docs/your-own-agents.md"
        : `name a folder with recipe.ts, rewards.ts and tools.ts, or one of: ${known.join(", ")}`;
    throw new MgrpoError("recipe-invalid", `recipe '${folder}' ${fault}: ${remedy}`, {
      unknownNames: [{ unknown: basename(folder), known }],
    });
  }
  try {
    const load = file.endsWith(".ts") && !import.meta.url.endsWith(".ts") ? await typeScriptLoader() : importModule;
    return (await withoutExit(IMPORTED, () => load(pathToFileURL(file).href, import.meta.url))) as object;
  } catch (cause) {
    const why = errorText(cause);
    throw new MgrpoError("recipe-invalid", `${file} cannot be loaded: ${why}`, { cause });
  }
}

/** The file of a part in a recipe's folder; undefined if there is none. */
export function fileOfPart(folder: string, part: string): string | undefined {
  const files = foldersOf(folder).flatMap((path) =>
    [".ts", ".js", ".mjs"].map((extension) => join(path, part + extension)),
  );
  return files.find((name) => existsSync(name));
}

/** Where a recipe's folder may be: here, or in the project that MGRPO_PROJECT names (the user's, or its copy in a release). */
function foldersOf(folder: string): string[] {
  const { MGRPO_PROJECT: project } = process.env;
  return [resolve(folder), ...(project && !isAbsolute(folder) ? [resolve(project, folder)] : [])];
}

type LoadModule = (url: string, from: string) => Promise<unknown>;

const importModule: LoadModule = (url) => import(url);

let importTypeScript: Promise<LoadModule> | undefined;

/**
 * TypeScript loads through tsx, in a separate namespace, where a folder needs no package.json with "type": "module". tsx is resolved at
 * run time, since bundles of functions do not need it, and by `import.meta.resolve`, since `require` finds its CommonJS entry.
 */
function typeScriptLoader(): Promise<LoadModule> {
  importTypeScript ??= (async () => {
    const cjs = (await import(import.meta.resolve("tsx/cjs/api"))) as Tsx<unknown>;
    const esm = (await import(import.meta.resolve("tsx/esm/api"))) as Tsx<{ import: LoadModule }>;
    cjs.register({ namespace: NAMESPACE });
    return esm.register({ namespace: NAMESPACE }).import;
  })();
  return importTypeScript;
}

const NAMESPACE = "mgrpo-recipe";

interface Tsx<T> {
  register(options: { namespace: string }): T;
}
