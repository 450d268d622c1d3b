/**
 * @file What npm would publish of both packages. Every file is packed that an export, a command, an import or the header of an exported
 * module names, and npm has nothing to correct. A link in a page leads to a packed file, or into a folder that docs/README.md says only the
 * repository has. No registry is contacted. The JavaScript is that of dist/, without declarations; test/package.long.test.ts builds and
 * checks those.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import * as z from "zod";

const ROOT = resolve(import.meta.dirname, "..");
const Contents = z.object({ files: z.array(z.object({ path: z.string() })) });
/** Newer versions of npm list the contents under the name of the package. */
const Listing = z.union([Contents, z.record(z.string(), Contents).transform((named) => Object.values(named)[0])]);
const Package = z.object({
  bin: z.record(z.string(), z.string()),
  exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string(), default: z.string() })])),
});

interface Published {
  readonly files: readonly string[];
  readonly warnings: readonly string[];
}

/** A registry that does not respond, and a token that is never sent: npm then only reads the package. */
const NOWHERE = ["--registry=http://127.0.0.1:9", "--//127.0.0.1:9/:_authToken=none", "--fetch-retries=0"];

function published(folder: string): Published {
  const options = ["--dry-run", "--json", "--ignore-scripts", "--loglevel=warn", ...NOWHERE];
  const { stdout, stderr } = spawnSync("npm", ["publish", ...options], {
    cwd: join(ROOT, folder),
    encoding: "utf8",
    maxBuffer: 16 * 2 ** 20,
  });
  if (stdout === "") throw new Error(stderr);
  const files = Listing.parse(JSON.parse(stdout))?.files ?? [];
  return { files: files.map(({ path }) => path), warnings: stderr.match(/^npm (warn|error).*$/gim) ?? [] };
}

const FOLDERS = [".", "create"];
const packages = new Map<string, Published>();
beforeAll(() => {
  for (const folder of FOLDERS) packages.set(folder, published(folder));
});
const filesOf = (folder: string) => packages.get(folder)?.files ?? [];
const filesUnder = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [relative(join(ROOT, folder), join(entry.parentPath, entry.name))] : [],
  );
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

test.each(FOLDERS)("%s: npm would correct nothing and warn of nothing", (folder) => {
  expect(packages.get(folder)?.warnings).toEqual([]);
});

test("every export and command is packed, and a release has the types of each export beside it", () => {
  const { bin, exports } = Package.parse(JSON.parse(read("package.json")));
  const declared = z.object({ include: z.array(z.string()) }).parse(JSON.parse(read("tsconfig.build.json"))).include;
  const entries = Object.values(exports).filter((entry) => typeof entry !== "string");
  expect(entries.length).toBeGreaterThan(7);
  for (const { types, default: module } of entries) {
    expect(filesOf(".")).toContain(module.replace("./", ""));
    expect(types).toBe(module.replace(/\.js$/, ".d.ts"));
    expect(declared).toContain(module.split("/")[2]);
  }
  for (const command of Object.values(bin)) expect(filesOf(".")).toContain(command);
});

test("the package has the workers, the docs and the sources that they show, and no tests, runs or other sources", () => {
  const needed = [
    "README.md",
    "LICENSE",
    "dist/release",
    "dist/recipes/atlas/recipe.js",
    "dist/gpu-workers/worker.js",
    "dist/gpu-workers/liveness/watchdog-thread.js",
    "recipes/atlas/recipe.ts",
    "recipes/deep-research/README.md",
    ...readdirSync(join(ROOT, "docs")).flatMap((name) => (name === "make" ? [] : [`docs/${name}`])),
  ];
  const files = filesOf(".");
  expect(needed.filter((name) => !files.includes(name))).toEqual([]);
  const outside = files.filter((name) => /^(dist\/)?(test|runs|node_modules)\//.test(name));
  const shown = /^(core\/mgrpo|create\/template|examples|recipes)\//;
  const sources = files.filter((name) => /(?<!\.d)\.tsx?$/.test(name) && !shown.test(name));
  expect([...outside, ...sources]).toEqual([]);
});

test("both packages have every file of the template", () => {
  const template = filesUnder("create/template");
  expect(template).toContain("_package.json");
  expect(template.filter((name) => !filesOf(".").includes(`create/template/${name}`))).toEqual([]);
  expect(template.filter((name) => !filesOf("create").includes(`template/${name}`))).toEqual([]);
});

test("the package contains every file that its modules import", () => {
  const files = new Set(filesOf("."));
  const modules = [...files].filter((name) => /^dist\/.*\.js$/.test(name));
  expect(modules.length).toBeGreaterThan(200);
  const imports = modules.flatMap((name) => {
    const found = [...read(name).matchAll(/\b(?:from|import)\s*\(?\s*"(\.\.?\/[^"]+)"/g)];
    return found.map(([, path = ""]) => join(dirname(name), path));
  });
  expect([...new Set(imports)].filter((path) => !files.has(path))).toEqual([]);
});

/** Folders that, by docs/README.md, only the repository has. */
function repositoryOnlyFolders(): string[] {
  const [sentence = ""] =
    /^Links into .* lead to files that only the repository has/m.exec(read("docs/README.md")) ?? [];
  return [...sentence.matchAll(/`(\w+\/)`/g)].map(([, name = ""]) => name);
}

/** The relative links of a page, pictures included, as paths in its package. */
function linksOf(folder: string, page: string): string[] {
  const targets = [...read(join(folder, page)).matchAll(/\]\(([^)#\s]+)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target)).map((target) => join(dirname(page), target));
}

test.each(FOLDERS)("%s: packed pages link to packed files, or into folders that only the repository has", (folder) => {
  const files = filesOf(folder);
  const repositoryOnly = repositoryOnlyFolders();
  const isRepositoryOnly = (path: string) => repositoryOnly.some((name) => path.startsWith(name));
  expect(repositoryOnly).toContain("test/");
  expect(files.filter(isRepositoryOnly)).toEqual([]);
  const pages = files.filter((file) => file.endsWith(".md"));
  const links = pages.flatMap((page) => linksOf(folder, page).map((target) => ({ page, target })));
  expect(links.filter(({ target }) => !files.includes(target) && !isRepositoryOnly(target))).toEqual([]);
});

test("the files that the headers of exported modules name are packed", () => {
  const files = filesOf(".");
  const entries = Object.values(Package.parse(JSON.parse(read("package.json"))).exports);
  const sources = entries.flatMap((entry) =>
    typeof entry === "string" ? [] : [entry.default.replace(/^\.\/dist\/(.*)\.js$/, "$1.ts")],
  );
  const named = sources.flatMap((source) => {
    const [header = ""] = /\/\*\*[\s\S]*?\*\//.exec(read(source)) ?? [];
    return [...header.matchAll(/\b(?:[\w-]+\/)+[\w-]+\.(?:md|py|ts)\b/g)].map(([path]) => path);
  });
  expect(named).toContain("engine/README.md");
  expect(named.filter((path) => !files.includes(path))).toEqual([]);
});
