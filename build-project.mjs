/**
 * @file The user's project in a release (`MGRPO_PROJECT`): the rewards of each recipe, and the recipe's tools and app if it has them,
 * bundled into one module each, in `dist/project/<path of the recipe>`. Workers and functions elsewhere find a recipe there by the path that a
 * run was started with. `dist/project` also has the thread in which functions run the rewards.
 */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";

/** What every recipe has. */
const REQUIRED = ["recipe", "rewards"];
/** Parts of a recipe that are loaded away from the user's machine, if it has them. */
const PARTS = ["rewards", "tools", "rollout"];
/** Recipes are looked for in the project's folder and this many levels below it. */
const DEPTH = 2;
/** Functions start it (functions/compose.ts). */
const THREAD = "rewards-thread";
/** CommonJS packages that a recipe imports call `require` for Node.js's built-in modules. SST gives functions the same line. */
const REQUIRE =
  "import { createRequire as topLevelCreateRequire } from 'node:module';const require = topLevelCreateRequire(import.meta.url);";
const SKIPPED = /^(\..*|node_modules|runs|dist)$/;

/**
 * The modules of a project, by their path in it. Rewards carry everything they import, since a function has no packages. Tools and apps
 * import this package and its dependencies (`external`) from the release that contains them.
 */
export async function compileProject(project, external) {
  const recipes = existsSync(project) ? recipesIn(project, DEPTH) : [];
  if (recipes.length === 0)
    throw new Error(
      `MGRPO_PROJECT=${project}: no folder in it, at most ${DEPTH} levels down, has recipe.ts and rewards.ts`,
    );
  const modules = new Map();
  // esbuild resolves symbolic links: the paths of its inputs begin with this one.
  const root = realpathSync(project);
  modules.set(`${THREAD}.mjs`, await bundle(join(import.meta.dirname, "recipes", `${THREAD}.ts`), [], root));
  for (const recipe of recipes) {
    for (const part of PARTS.filter((name) => sourceOf(recipe, name) !== undefined)) {
      const bundled = await bundle(sourceOf(recipe, part), part === "rewards" ? [] : external, root);
      modules.set(join(relative(project, recipe), `${part}.mjs`), bundled);
    }
  }
  return modules;
}

async function bundle(entry, external, project) {
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    external,
    format: "esm",
    platform: "node",
    target: "node20.20",
    bundle: true,
    // zod declares no side effects. In a module that is also imported dynamically, esbuild would leave out what initializes it.
    ignoreAnnotations: true,
    banner: { js: REQUIRE },
    write: false,
    metafile: true,
    logLevel: "error",
    plugins: external.includes("mgrpo") ? [] : [{ name: "this mgrpo", setup: useThisPackage }],
  });
  const names = new Map(Object.keys(metafile.inputs).map((path) => [path, nameOf(resolve(path), project)]));
  return Buffer.from(renamed(outputFiles[0].text, names));
}

/**
 * esbuild names each module in the bundle, in a comment or as a property, by its path from the working directory. A release is known by the
 * hash of its bundles, so a module gets a name that is the same on every machine.
 */
function renamed(text, names) {
  return text.replace(/^(\/\/ | {2}")(.+?)($|"\()/gm, (line, before, path, after) =>
    names.has(path) ? before + names.get(path) + after : line,
  );
}

function nameOf(path, project) {
  const parts = path.split(sep);
  const modules = parts.lastIndexOf("node_modules");
  if (modules !== -1) return parts.slice(modules).join("/");
  const [inProject, inPackage] = [project, import.meta.dirname].map((folder) => relative(folder, path));
  const isOwn = !isInside(inProject) && isInside(inPackage);
  return (isOwn ? join("mgrpo", inPackage) : inProject).replaceAll(sep, "/");
}

const isInside = (path) => !path.startsWith("..") && !isAbsolute(path);

/**
 * A project's imports of mgrpo resolve to this release, whichever version the project has installed. Rewards run in functions, which have
 * no engine.
 */
function useThisPackage({ onResolve }) {
  onResolve({ filter: /^mgrpo\// }, ({ path }) => {
    const file = join(import.meta.dirname, "exports", `${path.slice("mgrpo/".length)}.ts`);
    if (existsSync(file)) return { path: file };
    return { errors: [{ text: `rewards run in functions, which do not have ${path}: import it in tools.ts` }] };
  });
}

function recipesIn(folder, depth) {
  if (REQUIRED.every((part) => sourceOf(folder, part) !== undefined)) return [folder];
  if (depth === 0) return [];
  const inner = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && !SKIPPED.test(entry.name),
  );
  return inner.flatMap(({ name }) => recipesIn(join(folder, name), depth - 1));
}

const sourceOf = (folder, part) =>
  [".ts", ".js", ".mjs"].map((extension) => join(folder, part + extension)).find((path) => existsSync(path));
