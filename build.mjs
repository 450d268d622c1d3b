/**
 * @file Builds dist/: modules as JavaScript, the browser's scripts in two bundles (the dashboard's page, the page of an export), and copies of
 * the other files (except NOT_SOURCES), each at the path of its source.
 * Builds only what has changed, and replaces each file atomically, so that it can run before every command, and at the same time as others.
 * Does not check types (`npm run types` does). With `--fixtures`, it builds the tests' scripted recipe too.
 *
 * With MGRPO_PROJECT, the folder of a user's project, its recipes are built too (build-project.mjs).
 *
 * dist/release is the hash of what workers run (gpu-workers/release.ts). A build that changes a file removes dist/release first and writes it
 * last, so a build that is killed leaves none.
 */
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

const ROOT = import.meta.dirname;
const DIST = join(ROOT, "dist");
/** Of the stacks, only what `npm run simulate` needs. */
const SOURCES = [
  "core",
  "engine",
  "adapters",
  "functions",
  "gpu-workers",
  "sft",
  "recipes",
  "ui",
  "cli",
  "bench",
  "examples",
  "exports",
  "stacks/sizes.ts",
  "built-module.ts",
];
const FIXTURES = ["test/fixtures/relay"];
/** What workers run: their code, and the criteria of their judges. */
const WORKER_FILES = /^((core|engine|adapters|exports|gpu-workers|recipes)\/.*\.(js|md)|built-module\.js)$/;
const RELEASE = join(DIST, "release");
const PROJECT = join(DIST, "project");
/** The dashboard's page, and the page of an export: one browser bundle each. */
const PAGE = { folder: join(ROOT, "ui"), entries: ["main", "export"].map((name) => join(ROOT, `ui/app/${name}.tsx`)) };
const NOT_SOURCES = /(^|[/\\])(pytorch|\.[^/\\]*)$|README\.md$|tsconfig\.json$/;

async function build(folders) {
  const sources = folders.flatMap((folder) => filesUnder(join(ROOT, folder)));
  const times = timesOf(sources);
  const stale = sources.filter((source) => timeOf(target(source)) !== times.get(source));
  const orphans = orphansOf(folders, new Set(sources.map(target)));
  const [modules, others] = [stale.filter(isModule), stale.filter((path) => !isModule(path) && !isOfPage(path))];
  const project = await projectModules();
  const hasChanged = stale.length + orphans.length > 0 || !isBuilt(project);
  if (hasChanged) rmSync(RELEASE, { force: true });
  for (const path of others) replace(target(path), (temporary) => cpSync(path, temporary));
  if (modules.length > 0) await compile(modules);
  if (stale.some(isOfPage)) await bundlePage();
  for (const source of stale) utimesSync(target(source), new Date(), new Date(times.get(source)));
  for (const path of orphans) rmSync(path, { force: true });
  replaceProject(project);
  // Even if it exists again: another build may have written it before this one replaced the files.
  if (hasChanged || !existsSync(RELEASE))
    replace(RELEASE, (temporary) => writeFileSync(temporary, hashOfWorkers(sources, project)));
}

/**
 * First 12 hex digits of the SHA-256 of names and contents. The names come from the sources: a listing of dist/ may miss a file that another
 * build is replacing.
 */
function hashOfWorkers(sources, project) {
  const hash = createHash("sha256");
  const names = sources.map((source) => relative(DIST, target(source)).replaceAll(sep, "/"));
  for (const name of names.filter((name) => WORKER_FILES.test(name)).sort()) {
    const content = readFileSync(join(DIST, name));
    hash.update(`${name} ${content.length}\n`).update(content);
  }
  for (const [path, content] of project) hash.update(`project/${path} ${content.length}\n`).update(content);
  return hash.digest("hex").slice(0, 12);
}

/** The modules of the user's project, by path; none without MGRPO_PROJECT. */
async function projectModules() {
  const { MGRPO_PROJECT: project } = process.env;
  if (!project) return new Map();
  const { compileProject } = await import("./build-project.mjs");
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  return compileProject(resolve(project), ["mgrpo", ...Object.keys({ ...dependencies, ...optionalDependencies })]);
}

const isBuilt = (project) => {
  const there = filesUnder(PROJECT);
  const same = ([path, content]) =>
    existsSync(join(PROJECT, path)) && readFileSync(join(PROJECT, path)).equals(content);
  return there.length === project.size && [...project].every(same);
};

function replaceProject(project) {
  if (isBuilt(project)) return;
  rmSync(PROJECT, { recursive: true, force: true });
  for (const [path, content] of project) replace(join(PROJECT, path), (temporary) => writeFileSync(temporary, content));
}

async function compile(modules) {
  const { build: bundle } = await import("esbuild");
  const { outputFiles } = await bundle({
    entryPoints: modules,
    outbase: ROOT,
    outdir: DIST,
    write: false,
    logLevel: "error",
    format: "esm",
    platform: "node",
    target: "node20.20",
    packages: "external",
    bundle: true,
    plugins: [{ name: "one file each", setup: keepApart }],
  });
  for (const { path, contents } of outputFiles) replace(path, (temporary) => writeFileSync(temporary, contents));
}

/** When each source changed. The two bundles import from all of ui/, so a script of a page has the time of the newest file there. */
function timesOf(sources) {
  const newest = Math.max(0, ...sources.filter((path) => path.startsWith(PAGE.folder)).map(timeOf));
  return new Map(sources.map((source) => [source, isOfPage(source) ? newest : timeOf(source)]));
}

async function bundlePage() {
  const { build: bundle } = await import("esbuild");
  const { outputFiles } = await bundle({
    entryPoints: PAGE.entries,
    outbase: ROOT,
    outdir: DIST,
    write: false,
    logLevel: "error",
    format: "esm",
    platform: "browser",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    bundle: true,
    minify: true,
    legalComments: "none",
  });
  for (const { path, contents } of outputFiles) replace(path, (temporary) => writeFileSync(temporary, contents));
}

/** Keeps each module in its own file: imports stay imports, now of the .js files. */
function keepApart({ onResolve }) {
  onResolve({ filter: /^\.\.?\// }, ({ path, kind }) =>
    kind === "entry-point" ? undefined : { path: path.replace(/\.ts$/, ".js"), external: true },
  );
}

function replace(path, write) {
  const temporary = `${path}.${process.pid}.tmp`;
  mkdirSync(dirname(path), { recursive: true });
  write(temporary);
  renameSync(temporary, path);
}

/** Built files whose sources no longer exist. */
function orphansOf(folders, wanted) {
  const existing = folders.flatMap((folder) => filesUnder(join(DIST, folder)));
  return existing.filter((path) => !wanted.has(owner(path)) && !path.endsWith(".tmp"));
}

function filesUnder(path) {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats?.isDirectory()) return stats ? [path] : [];
  const paths = readdirSync(path).map((name) => join(path, name));
  return paths.filter((inner) => !NOT_SOURCES.test(inner)).flatMap(filesUnder);
}

/** Scripts of the page are bundled, not built one by one. */
const isOfPage = (path) => path.startsWith(join(PAGE.folder, "app")) && /\.tsx?$/.test(path);
const isModule = (path) => path.endsWith(".ts") && !isOfPage(path);
/** The bundle whose time tells whether a script of the page has changed: all bundles are built together, so the first stands for all. */
const builtFrom = (source) => (isOfPage(source) && !PAGE.entries.includes(source) ? PAGE.entries[0] : source);
const target = (source) => join(DIST, relative(ROOT, builtFrom(source))).replace(/\.tsx?$/, ".js");
/** A declaration file belongs to its module. */
const owner = (path) => path.replace(/\.d\.ts$/, ".js");

/** Modification time in whole milliseconds. A built file has the time of its source: any other time, even an earlier one, means a change. */
function timeOf(path) {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats && Math.round(stats.mtimeMs);
}

await build([...SOURCES, ...(process.argv.includes("--fixtures") ? FIXTURES : [])]);
