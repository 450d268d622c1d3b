/** @file Bundles the processes under test once, because a bundle starts in a fraction of the time that loading TypeScript takes. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { builtModule } from "../../built-module.ts";

const ROOT = resolve(import.meta.dirname, "../..");

export interface Built {
  /** The path of a built entry point. */
  path(entry: string): string;
  readonly parent: string;
  readonly worker: string;
  readonly crash: string;
  /** Folder of the relay recipe. */
  readonly recipe: string;
  remove(): void;
}

/** @param more further entry points: name -> path from the repository's root. */
export async function buildProcesses(more: Readonly<Record<string, string>> = {}): Promise<Built> {
  // Below node_modules, so that packages that are not bundled resolve.
  const cache = join(ROOT, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const outdir = mkdtempSync(join(cache, "kill-"));
  await build({
    entryPoints: {
      parent: join(ROOT, "test/kill/parent.ts"),
      worker: join(ROOT, "gpu-workers/worker.ts"),
      crash: join(ROOT, "test/kill/crash.ts"),
      "relay/tools": join(ROOT, "test/fixtures/relay/tools.ts"),
      "relay/rewards": join(ROOT, "test/fixtures/relay/rewards.ts"),
      ...Object.fromEntries(Object.entries(more).map(([name, path]) => [name, join(ROOT, path)])),
    },
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    // CommonJS packages in the bundle need a require.
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
    },
    external: [
      "dynalite",
      "level",
      "classic-level",
      "onnxruntime-node",
      "@tensorflow/*",
      "world-countries",
      "mathjs",
      "minisearch",
      "*/engine/index.ts",
    ],
    logLevel: "error",
  });
  // A bundled worker looks for its watchdog's module in gpu-workers/ of this folder: see built-module.ts.
  symlinkSync(fileURLToPath(builtModule("gpu-workers")).replace(/\.js$/, ""), join(outdir, "gpu-workers"));
  const path = (entry: string) => join(outdir, `${entry}.mjs`);
  return {
    path,
    parent: path("parent"),
    worker: path("worker"),
    crash: path("crash"),
    recipe: join(outdir, "relay"),
    remove: () => rmSync(outdir, { recursive: true, force: true }),
  };
}
