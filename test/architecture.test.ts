/** @file The architecture: which folder may import which, that core is pure, and that files stay short. Biome limits the length of functions. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

/**
 * Which layers each layer may import. Functions and workers meet their adapters and recipes in `compose.ts`. `built-module.ts` is the
 * counterpart of build.mjs: it knows where built JavaScript is, and imports nothing.
 */
const ALLOWED: Record<string, readonly string[]> = {
  core: ["core"],
  engine: ["engine", "core", "built-module.ts"],
  adapters: ["adapters", "core", "built-module.ts"],
  functions: ["functions", "core"],
  "functions/compose.ts": ["functions", "core", "adapters", "recipes/rewards.ts"],
  "gpu-workers": ["gpu-workers", "engine", "core", "built-module.ts"],
  "gpu-workers/compose.ts": ["gpu-workers", "engine", "core", "adapters", "recipes/registry.ts", "recipes/rewards.ts"],
  sft: ["sft", "core", "engine"],
  exports: ["adapters", "core", "engine", "recipes/small-models"],
  recipes: ["recipes", "core", "adapters/tools", "adapters/judges", "adapters/llm"],
  examples: ["examples", "core", "engine", "recipes"],
  stacks: ["stacks"],
  cli: ["cli", "core", "engine", "adapters", "functions", "gpu-workers", "sft", "recipes", "bench", "built-module.ts"],
  bench: [
    "bench",
    "core",
    "engine",
    "adapters",
    "functions",
    "gpu-workers",
    "recipes",
    "stacks/sizes.ts",
    "built-module.ts",
  ],
  // A program of its own, which runs the command line and reads the reports that it writes.
  "bench/gpu-report.ts": ["bench", "core", "cli/run-report.ts"],
};

/** Within core: what each folder may import. */
const INSIDE_CORE: Record<string, readonly string[]> = {
  contracts: ["contracts", "errors.ts"],
  mgrpo: ["mgrpo", "contracts", "errors.ts", "random.ts"],
  conversation: ["conversation", "contracts", "mgrpo", "errors.ts", "random.ts", "ports.ts", "language-model-ports.ts"],
  training: [
    "training",
    "contracts",
    "mgrpo",
    "conversation",
    "errors.ts",
    "random.ts",
    "ports.ts",
    "checkpoint-source.ts",
  ],
};

/** Ambient effects. Core receives time, randomness and settings as arguments. */
const AMBIENT = /Math\.random|Date\.now|new Date\(|process\.\w|console\.|fetch\(|import\.meta/;
const MAX_LINES = 300;
const ROOT = resolve(import.meta.dirname, "..");
const LAYERS = Object.keys(ALLOWED).filter((layer) => !layer.includes("."));

test.each(LAYERS)("%s imports only what lies below it", (layer) => {
  for (const file of sourcesOf(layer)) {
    const allowed = ALLOWED[relative(ROOT, file)] ?? ALLOWED[layer] ?? [];
    for (const specifier of importsOf(file)) {
      const edge = `${relative(ROOT, file)} -> ${specifier}`;
      if (!specifier.startsWith(".")) {
        if (layer === "core") expect(["zod", "leven"], edge).toContain(specifier);
        continue;
      }
      const target = relative(ROOT, resolve(dirname(file), specifier));
      expect(
        allowed.some((folder) => target === folder || target.startsWith(`${folder}/`)),
        edge,
      ).toBe(true);
    }
  }
});

test("inside core, arrows point from training to conversation to mgrpo to contracts", () => {
  for (const file of sourcesOf("core")) {
    const allowed = INSIDE_CORE[relative(ROOT, file).split("/")[1] ?? ""];
    if (!allowed) continue;
    for (const specifier of importsOf(file).filter((name) => name.startsWith("."))) {
      const target = relative(join(ROOT, "core"), resolve(dirname(file), specifier)).split("/")[0];
      expect(allowed, `${relative(ROOT, file)} -> ${specifier}`).toContain(target);
    }
  }
});

test("core is pure", () => {
  for (const file of sourcesOf("core")) {
    expect(readFileSync(file, "utf8"), relative(ROOT, file)).not.toMatch(AMBIENT);
  }
});

test.each([...LAYERS, "test"])("every file in %s has a header and at most 300 lines", (layer) => {
  for (const file of sourcesOf(layer)) {
    const source = readFileSync(file, "utf8");
    expect(source.replace(/^#!.*\n/, ""), relative(ROOT, file)).toMatch(/^\/\*\*\s+(\*\s+)?@file/);
    expect(source.split("\n").length, relative(ROOT, file)).toBeLessThanOrEqual(MAX_LINES + 1);
  }
});

/** Static, side-effect and dynamic imports alike. */
function importsOf(file: string): string[] {
  const source = readFileSync(file, "utf8");
  return [...source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].flatMap(([, name]) => name ?? []);
}

function sourcesOf(layer: string): string[] {
  return readdirSync(join(ROOT, layer), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.includes("node_modules"))
    .map((name) => join(ROOT, layer, name));
}
