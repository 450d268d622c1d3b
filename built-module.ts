/**
 * @file Where the JavaScript that build.mjs makes of a module is. Processes and threads are started from it, since it loads faster than
 * the TypeScript. A checkout keeps it in dist/; in the package, it lies beside this file.
 */
const ROOT = new URL(import.meta.url.endsWith(".ts") ? "./dist/" : "./", import.meta.url);

/** `module`: its path in the repository, without an extension. */
export function builtModule(module: string): URL {
  return new URL(`${module}.js`, ROOT);
}
