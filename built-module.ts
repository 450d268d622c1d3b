/**
 * @file Locates the JavaScript that build.mjs builds from a module. Processes and threads start from it because it loads faster than
 * the TypeScript. A checkout keeps it in dist/; in the package, it is next to this file.
 */
const ROOT = new URL(import.meta.url.endsWith(".ts") ? "./dist/" : "./", import.meta.url);

/** `module`: its path in the repository, without an extension. */
export function builtModule(module: string): URL {
  return new URL(`${module}.js`, ROOT);
}
