/** @file Bundles Lambda handlers as `sst deploy` does: one minified ES module each, including the AWS SDK that the lock file pins. */
import { readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";

/** One file per function. */
const HANDLERS = resolve(import.meta.dirname, "../../functions/lambda");
const REQUIRE =
  "import { createRequire as topLevelCreateRequire } from 'module';const require = topLevelCreateRequire(import.meta.url);";

export interface Bundle {
  /** The ES module's path. */
  readonly path: string;
  readonly bytes: number;
  /** Paths of all files that contribute bytes, relative to the working directory. */
  readonly inputs: readonly string[];
}

/** In a checkout the handlers are TypeScript sources, in dist/ built JavaScript. */
export function handlerNames(): string[] {
  const files = readdirSync(HANDLERS).filter((file) => /(?<!\.d)\.[jt]s$/.test(file));
  return files.map((file) => file.replace(/\.[jt]s$/, "")).sort();
}

/** Bundles by handler name. */
export async function bundleHandlers(names: readonly string[], folder: string): Promise<Map<string, Bundle>> {
  const { metafile } = await build({
    entryPoints: names.map((name) => join(HANDLERS, name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    minify: true,
    keepNames: true,
    platform: "node",
    format: "esm",
    target: "esnext",
    mainFields: ["module", "main"],
    external: ["sharp", "pg-native"],
    banner: { js: REQUIRE },
    metafile: true,
    logLevel: "silent",
  });
  return new Map(
    Object.entries(metafile.outputs).map(([path, { bytes, inputs }]) => {
      const used = Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
      return [basename(path, ".mjs"), { path: resolve(path), bytes, inputs: used.map(([input]) => input) }];
    }),
  );
}
