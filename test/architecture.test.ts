/**
 * @file The architecture: which folder may import which, that imports form no cycle, that core is pure, that every file has a header, and
 * that files and functions are short.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { longFunctions } from "./long-functions.ts";
import { filesOf, foldersIn, ROOT, sourceFolders, sourcesOf } from "./sources.ts";

/**
 * Which layers each layer may import. Functions and workers meet their adapters and recipes in `compose.ts`. `built-module.ts` is the
 * counterpart of build.mjs: it knows where built JavaScript is, and imports nothing.
 */
const ALLOWED: Record<string, readonly string[]> = {
  core: ["core"],
  engine: ["engine", "core", "built-module.ts"],
  adapters: ["adapters", "core", "built-module.ts"],
  functions: ["functions", "core"],
  "functions/compose.ts": ["functions", "core", "adapters", "recipes/isolated-rewards.ts", "recipes/rewards.ts"],
  "gpu-workers": ["gpu-workers", "engine", "core", "built-module.ts"],
  "gpu-workers/compose.ts": ["gpu-workers", "engine", "core", "adapters", "recipes/registry.ts", "recipes/rewards.ts"],
  sft: ["sft", "core", "engine"],
  exports: ["adapters", "core", "engine", "recipes/small-models"],
  "exports/app.ts": ["core", "gpu-workers/gateway/rollout-handler.ts"],
  recipes: ["recipes", "core", "adapters/tools", "adapters/judges", "adapters/llm", "built-module.ts"],
  examples: ["examples", "core", "engine", "recipes/atlas", "adapters/tools"],
  stacks: ["stacks"],
  ui: ["ui", "core"],
  cli: [
    "cli",
    "ui/views.ts",
    "ui/compare-view.ts",
    "ui/export-view.ts",
    "ui/group-order.ts",
    "ui/settings.ts",
    "ui/timeline-view.ts",
    "ui/palette.ts",
    "core",
    "engine",
    "adapters",
    "functions",
    "gpu-workers",
    "sft",
    "recipes",
    "built-module.ts",
  ],
  bench: ["bench", "core", "engine", "adapters", "functions", "gpu-workers", "stacks/sizes.ts", "built-module.ts"],
  // A program of its own, which runs the command line and reads the reports that it writes.
  "bench/gpu-report.ts": ["bench", "core", "cli/run-report.ts"],
  "bench/power.ts": ["core", "cli/compare/measure.ts", "cli/held-out-scores.ts", "cli/terminal/fail.ts"],
  "bench/sign-test.ts": ["core", "recipes/gazetteer", "cli/terminal/fail.ts"],
  "bench/soak/chart.ts": ["bench", "cli/chart-theme.ts"],
  docs: ["docs", "core", "cli/program.ts", "adapters/tools/web/settings.ts"],
  // The template of a separate project, which imports the package.
  create: ["create"],
};

/** Within core: what each folder may import. The files beside the folders (ports, errors, randomness) may import all of core. */
const INSIDE_CORE: Record<string, readonly string[]> = {
  "core/contracts": ["core/contracts", "core/errors.ts"],
  "core/mgrpo": ["core/mgrpo", "core/contracts", "core/errors.ts", "core/random.ts", "core/statistics.ts"],
  "core/conversation": [
    "core/conversation",
    "core/contracts",
    "core/errors.ts",
    "core/ports.ts",
    "core/language-model-ports.ts",
    "core/well-formed.ts",
  ],
  "core/gateway": [
    "core/gateway",
    "core/contracts",
    "core/conversation/parse-turn.ts",
    "core/conversation/json-text.ts",
    "core/ports.ts",
  ],
  "core/monitoring": ["core/monitoring", "core/contracts", "core/mgrpo", "core/training", "core/statistics.ts"],
  "core/training": [
    "core/training",
    "core/contracts",
    "core/mgrpo",
    "core/statistics.ts",
    "core/errors.ts",
    "core/random.ts",
    "core/ports.ts",
    "core/checkpoint-source.ts",
  ],
};

/** Ambient effects. Core receives time, randomness and settings as arguments. */
const AMBIENT =
  /Math\.random|Date\.now|new Date\(|performance\.|set(Timeout|Interval|Immediate)|crypto\.|process\.\w|console\.|fetch\(|import\.meta/;
const MAX_LINES = 300;
const MAX_FUNCTION_LINES = 60;
/** Layers whose parts (a folder, or a file beside the folders) form no import cycle. */
const ONE_WAY = [
  "core",
  "engine/compiled",
  "cli",
  "adapters",
  "engine",
  "functions",
  "gpu-workers",
  "sft",
  "recipes",
  "ui",
  "bench",
  "stacks",
];
const LAYERS = Object.keys(ALLOWED).filter((layer) => !layer.includes("."));

test("every folder with sources has a rule", () => {
  expect(sourceFolders()).toEqual([...LAYERS, "test"].sort());
  expect(foldersIn(join(ROOT, "core")).map((name) => `core/${name}`)).toEqual(Object.keys(INSIDE_CORE).sort());
});

test.each(LAYERS)("%s imports only what its rule allows", (layer) => {
  for (const file of sourcesOf(layer)) {
    const allowed = ALLOWED[relative(ROOT, file)] ?? ALLOWED[layer] ?? [];
    for (const target of targetsOf(file)) expectWithin(allowed, target, file);
  }
});

test("core imports no package but zod", () => {
  const packages = sourcesOf("core").flatMap(importsOf);
  expect([...new Set(packages.filter((name) => !name.startsWith(".")))]).toEqual(["zod"]);
});

test.each(["algorithm", "contracts", "conversation", "errors", "random", "recipe", "base-model"])(
  "mgrpo/%s needs no package but zod, directly or through what it imports",
  (entry) => {
    const files = new Set([join(ROOT, `exports/${entry}.ts`)]);
    for (const file of files) for (const target of targetsOf(file)) files.add(join(ROOT, target));
    const packages = [...files].flatMap(importsOf).filter((name) => !/^(?:\.|node:)/.test(name));
    expect([...new Set(packages)].filter((name) => name !== "zod")).toEqual([]);
  },
);

test.each(Object.entries(INSIDE_CORE))("%s imports only what its rule allows", (folder, allowed) => {
  for (const file of sourcesOf(folder)) for (const target of targetsOf(file)) expectWithin(allowed, target, file);
});

test.each(Object.entries({ ...ALLOWED, ...INSIDE_CORE }))("%s uses all that its rule allows", (name, allowed) => {
  const files = name.endsWith(".ts")
    ? [join(ROOT, name)]
    : sourcesOf(name).filter((file) => !(relative(ROOT, file) in ALLOWED));
  const targets = files.flatMap(targetsOf);
  expect(allowed.filter((place) => !targets.some((target) => isWithin(target, place)))).toEqual([]);
});

test("files form no import cycle, type imports included", () => {
  const files = [...LAYERS, "test"].flatMap(sourcesOf).map((file) => relative(ROOT, file));
  expect(cyclesIn(new Map(files.map((file) => [file, targetsOf(join(ROOT, file))])))).toEqual([]);
});

test.each(ONE_WAY)("the folders of %s, and the files beside them, form no import cycle", (layer) => {
  const partOf = (file: string) => file.slice(layer.length + 1).split("/")[0] ?? "";
  const imports = new Map<string, Set<string>>();
  for (const file of sourcesOf(layer)) {
    const part = partOf(relative(ROOT, file));
    const targets = targetsOf(file).filter((target) => isWithin(target, layer));
    const others = targets.map(partOf).filter((target) => target !== part);
    imports.set(part, new Set([...(imports.get(part) ?? []), ...others]));
  }
  expect(cyclesIn(new Map([...imports].map(([part, targets]) => [part, [...targets]])))).toEqual([]);
});

test.each([
  ["tools", "trackers"],
  ["trackers", "tools"],
])("no file of adapters/%s imports one of adapters/%s: what both need lies beside these folders", (folder, other) => {
  const targets = sourcesOf(`adapters/${folder}`).flatMap(targetsOf);
  expect(targets.filter((target) => isWithin(target, `adapters/${other}`))).toEqual([]);
});

test("import cycles of two and of three files are found", () => {
  const imports = { a: ["b", "d"], b: ["c"], c: ["b"], d: ["e"], e: ["f"], f: ["d", "c"] };
  expect(cyclesIn(new Map(Object.entries(imports)))).toEqual(["b -> c -> b", "d -> e -> f -> d"]);
});

test("core is pure", () => {
  for (const file of sourcesOf("core")) {
    expect(readFileSync(file, "utf8"), relative(ROOT, file)).not.toMatch(AMBIENT);
  }
});

test("several abort signals are linked by core/any-signal.ts: `AbortSignal.any` leaks", () => {
  for (const file of LAYERS.flatMap(sourcesOf)) {
    expect(readFileSync(file, "utf8"), relative(ROOT, file)).not.toContain("AbortSignal.any(");
  }
});

test("no object literal is spread in place (`...{`), except in tests: its properties can be listed instead", () => {
  for (const file of LAYERS.flatMap(sourcesOf)) {
    expect(readFileSync(file, "utf8"), relative(ROOT, file)).not.toMatch(/\.\.\.\{/);
  }
});

test.each([...LAYERS, "test"])("every file in %s has a header and at most 300 lines", (layer) => {
  for (const file of sourcesOf(layer)) {
    const source = readFileSync(file, "utf8");
    expect(source.replace(/^#!.*\n/, ""), relative(ROOT, file)).toMatch(/^\/\*\*\s+(\*\s+)?@file/);
    expect(source.split("\n").length, relative(ROOT, file)).toBeLessThanOrEqual(MAX_LINES + 1);
  }
});

test("every style sheet has at most 300 lines", () => {
  const sheets = LAYERS.flatMap(filesOf).filter((name) => name.endsWith(".css"));
  expect(sheets.length).toBeGreaterThan(0);
  for (const file of sheets)
    expect(readFileSync(file, "utf8").split("\n").length, relative(ROOT, file)).toBeLessThanOrEqual(MAX_LINES + 1);
});

test.each([...LAYERS, "test", "."])("every function in %s has at most 60 lines", (layer) => {
  const files = layer === "." ? readdirSync(ROOT).map((name) => join(ROOT, name)) : filesOf(layer);
  const long = files
    .filter((file) => /\.(tsx?|m?js)$/.test(file))
    .flatMap((file) => longFunctions(relative(ROOT, file), readFileSync(file, "utf8"), MAX_FUNCTION_LINES));
  expect(long).toEqual([]);
});

test("a function of 61 lines is found, whatever its lines hold; the callback of `describe` may be longer", () => {
  const lines = (line: string) => `${line}\n`.repeat(MAX_FUNCTION_LINES - 1);
  const find = (source: string) => longFunctions("a.tsx", source, MAX_FUNCTION_LINES);
  const page = `export function Page() { return <p>\n${lines("text")}</p>; }`;
  expect(find(`// A page.\n${page}`)).toEqual(["a.tsx:2 has 61 lines"]);
  expect(find(page.replace("text\n", ""))).toEqual([]);
  expect(find(`const f = () => {\n${lines("const g = () => 1;")}};`)).toEqual(["a.tsx:1 has 61 lines"]);
  expect(find(`class A { f() {\n${lines("// Why.")}} }`)).toEqual(["a.tsx:1 has 61 lines"]);
  for (const describes of ["describe", "describe.each([1])", "describe.skipIf(a)"])
    expect(find(`${describes}("a", () => {\n${lines("test();")}});`)).toEqual([]);
  expect(find(`describe("a", () => { test("b", () => {\n${lines("a();")}}); });`)).toEqual(["a.tsx:1 has 61 lines"]);
});

test("half of the files outside test/ have fewer than 100 lines", () => {
  const lengths = LAYERS.flatMap(sourcesOf).map((file) => readFileSync(file, "utf8").split("\n").length - 1);
  const median = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 2)];
  expect(median).toBeLessThan(100);
});

function expectWithin(allowed: readonly string[], target: string, file: string): void {
  const isAllowed = allowed.some((place) => isWithin(target, place));
  expect(isAllowed, `${relative(ROOT, file)} -> ${target}`).toBe(true);
}

/** `place`: a folder or a file. */
const isWithin = (target: string, place: string) => target === place || target.startsWith(`${place}/`);

/** The files of this repository that a file imports. */
function targetsOf(file: string): string[] {
  return importsOf(file)
    .filter((name) => name.startsWith("."))
    .map((name) => relative(ROOT, resolve(dirname(file), name)));
}

/** Static, side-effect and dynamic imports alike. */
function importsOf(file: string): string[] {
  const source = readFileSync(file, "utf8");
  return [...source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].flatMap(([, name]) => name ?? []);
}

/** The cycles that a depth-first search of the imports finds, each as its path. */
function cyclesIn(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]) => {
    if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
    if (done.has(file) || path.includes(file)) return;
    for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
  return cycles;
}
