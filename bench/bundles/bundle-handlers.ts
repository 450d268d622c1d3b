/** @file Bundles Lambda handlers as `sst deploy` does: one minified ES module each, including the AWS SDK that the lock file pins. */
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";
import { MgrpoError } from "../../core/errors.ts";

const FUNCTIONS = resolve(import.meta.dirname, "../../functions");
const REQUIRE =
  "import { createRequire as topLevelCreateRequire } from 'module';const require = topLevelCreateRequire(import.meta.url);";

/** Matches both TypeScript sources and built JavaScript. */
const EXPORTED = /^export (const handler\b|\{[^}]*\bhandler\b)/m;

export interface Bundle {
  /** The ES module's path. */
  readonly path: string;
  readonly bytes: number;
  /** Paths of all files that contribute bytes. */
  readonly inputs: readonly string[];
}

/** The files in functions/ that export a `handler`, without their extension. */
export function handlerNames(): string[] {
  const handlers = readdirSync(FUNCTIONS).filter(
    (file) => /(?<!\.d)\.[jt]s$/.test(file) && EXPORTED.test(readFileSync(join(FUNCTIONS, file), "utf8")),
  );
  if (handlers.length === 0) throw new MgrpoError("not-found", `no file in ${FUNCTIONS} exports a handler`);
  return handlers.map((file) => file.replace(/\.[jt]s$/, "")).sort();
}

/** Bundles by handler name. */
export async function bundleHandlers(names: readonly string[], folder: string): Promise<Map<string, Bundle>> {
  const { metafile } = await build({
    entryPoints: names.map((name) => join(FUNCTIONS, name)),
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
