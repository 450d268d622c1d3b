/**
 * @file Where the JavaScript of this package is. Processes and threads are started from it: it loads sooner than its TypeScript. A checkout keeps it in dist/ (build.mjs), as the package does.
 */
const ROOT = new URL(import.meta.url.endsWith(".ts") ? "../dist/" : "../", import.meta.url);

/** `module`: its path in the repository, without an extension. */
export function built(module: string): URL {
  return new URL(`${module}.js`, ROOT);
}
