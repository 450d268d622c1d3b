/**
 * @file Builds dist/: the JavaScript of every source file and a copy of every other file beside them, each at its source's place. Only
 * what changed since the last time is made, and each file is replaced whole, so that it may run before every command and beside any.
 * Types are not looked at: that is `npm run types`. With `--fixtures`, the tests' scripted recipe too.
 *
 * With MGRPO_PROJECT, the folder of a user's project, its recipes are taken along (build-project.mjs).
 *
 * dist/release is the hash of what workers run (gpu-workers/release.ts). It is gone while any of that is made, so it is never of other files.
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
import { dirname, join, relative, resolve } from "node:path";

const ROOT = import.meta.dirname;
const DIST = join(ROOT, "dist");
/** Of the stacks, what `npm run simulate` counts with. */
const SOURCES = [
  "core",
  "engine",
  "adapters",
  "functions",
  "gpu-workers",
  "recipes",
  "cli",
  "bench",
  "exports",
  "stacks/sizes.ts",
];
const FIXTURES = ["test/fixtures/relay"];
/** Where a worker's code is, and the texts that it judges by. */
const WORKED = /^(core|engine|adapters|exports|gpu-workers|recipes)\/.*\.(js|md)$/;
const RELEASE = join(DIST, "release");
const PROJECT = join(DIST, "project");
const NO_SOURCES = /(^|\/)(pytorch|\..*)$|README\.md$/;

async function build(places) {
  const sources = places.flatMap((place) => filesUnder(join(ROOT, place)));
  const times = new Map(sources.map((source) => [source, timeOf(source)]));
  const stale = sources.filter((source) => timeOf(target(source)) !== times.get(source));
  const orphans = orphansOf(places, new Set(sources.map(target)));
  const [modules, others] = [stale.filter(isModule), stale.filter((path) => !isModule(path))];
  const project = await projectModules();
  if (stale.length + orphans.length > 0 || !isBuilt(project)) rmSync(RELEASE, { force: true });
  for (const path of others) replace(target(path), (temporary) => cpSync(path, temporary));
  if (modules.length > 0) await compile(modules);
  for (const source of stale) utimesSync(target(source), new Date(), new Date(times.get(source)));
  for (const path of orphans) rmSync(path, { force: true });
  replaceProject(project);
  if (!existsSync(RELEASE)) replace(RELEASE, (temporary) => writeFileSync(temporary, hashOfWorkers(sources, project)));
}

/** First 12 hex digits of the SHA-256 of names and contents. By the sources' list: that of dist/ may miss what another build replaces. */
function hashOfWorkers(sources, project) {
  const hash = createHash("sha256");
  const files = sources.map(target).filter((path) => WORKED.test(relative(DIST, path)));
  for (const path of files.sort()) {
    const content = readFileSync(path);
    hash.update(`${relative(DIST, path)} ${content.length}\n`).update(content);
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
    ...{ outbase: ROOT, outdir: DIST, write: false, logLevel: "error" },
    ...{ format: "esm", platform: "node", target: "node20.20", packages: "external" },
    bundle: true,
    plugins: [{ name: "one file each", setup: keepApart }],
  });
  for (const { path, contents } of outputFiles) replace(path, (temporary) => writeFileSync(temporary, contents));
}

/** Bundles nothing: what a module imports stays where it is, as JavaScript. */
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

/** What was built of sources that are gone. */
function orphansOf(places, wanted) {
  const there = places.flatMap((place) => filesUnder(join(DIST, place)));
  return there.filter((path) => !wanted.has(owner(path)) && !path.endsWith(".tmp"));
}

function filesUnder(place) {
  const found = statSync(place, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found ? [place] : [];
  const paths = readdirSync(place).map((name) => join(place, name));
  return paths.filter((path) => !NO_SOURCES.test(path)).flatMap(filesUnder);
}

const isModule = (path) => path.endsWith(".ts");
const target = (source) => join(DIST, relative(ROOT, source)).replace(/\.ts$/, ".js");
/** Declarations belong to the module that they describe. */
const owner = (path) => path.replace(/\.d\.ts$/, ".js");

/** When a file was written, in whole milliseconds; what is built carries its source's time: another one, also an earlier, is a change. */
function timeOf(path) {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && Math.round(found.mtimeMs);
}

await build([...SOURCES, ...(process.argv.includes("--fixtures") ? FIXTURES : [])]);
