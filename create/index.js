#!/usr/bin/env node
/**
 * @file `npm create mgrpo <folder>`: copies template/ into a folder that is new or empty. The project depends on the mgrpo of this package's
 * own version, or on the archive that `--mgrpo` names. Files whose names npm treats specially are kept under other names in the template.
 */
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";

const USAGE = "usage: npm create mgrpo@latest <folder> [-- --mgrpo <archive of npm pack>]";
const RENAMED = { "_package.json": "package.json", _npmrc: ".npmrc", _gitignore: ".gitignore" };

/** Writes the project and returns its folder. Throws an Error whose message is for the user. */
function create(name, archive) {
  const folder = resolve(name);
  const known = statSync(folder, { throwIfNoEntry: false });
  if (known && !known.isDirectory()) throw new Error(`${name} is not a folder: give another name`);
  if (known && readdirSync(folder).length > 0) throw new Error(`${name} is not empty: name a new folder`);
  if (archive !== undefined && !existsSync(archive)) throw new Error(`--mgrpo ${archive}: no such file`);
  cpSync(join(import.meta.dirname, "template"), folder, { recursive: true });
  for (const [from, to] of Object.entries(RENAMED)) renameSync(join(folder, from), join(folder, to));
  const path = join(folder, "package.json");
  const project = readJson(path);
  project.name = packageName(basename(folder));
  project.dependencies.mgrpo = archive === undefined ? ownVersion() : `file:${resolve(archive)}`;
  writeFileSync(path, `${JSON.stringify(project, null, 2)}\n`);
  return folder;
}

/** The folder's name as npm allows it for a package. */
const packageName = (name) =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "") || "my-team";

const ownVersion = () => readJson(join(import.meta.dirname, "package.json")).version;

const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

function parsedArguments() {
  try {
    return parseArgs({ allowPositionals: true, options: { mgrpo: { type: "string" } } });
  } catch (error) {
    // The first sentence says what is wrong.
    throw new Error(`${error.message.split(". ")[0]}: ${USAGE}`);
  }
}

function main() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 20)) {
    throw new Error(`mgrpo needs Node.js 20.20 or newer: this is ${process.version}`);
  }
  const { values, positionals } = parsedArguments();
  const [name] = positionals;
  if (name === undefined || positionals.length > 1) throw new Error(USAGE);
  const folder = create(name, values.mgrpo);
  const path = relative(".", folder) || ".";
  // POSIX shells, cmd and PowerShell all accept double quotes. POSIX shells expand some characters even there.
  const quoted = /^[\p{L}\p{M}\p{N}_./\\:@%+=,-]+$/u.test(path) ? path : `"${path.replaceAll(/["$`]/g, "\\$&")}"`;
  console.log(`Created ${folder}. Next:\n\n  cd ${quoted}\n  npm install\n  npm start\n`);
}

try {
  main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
