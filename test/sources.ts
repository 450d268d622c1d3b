/** @file The source files of this repository, by folder. Parameters called `folder` are relative to `ROOT`. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "..");

/** The top-level folders that hold sources. */
export function sourceFolders(): string[] {
  const ignored = readFileSync(join(ROOT, ".gitignore"), "utf8")
    .split("\n")
    .map((line) => line.replace(/^\/|\/$/g, ""));
  const folders = foldersIn(ROOT).filter((name) => !name.startsWith(".") && !ignored.includes(name));
  return folders.filter((name) => sourcesOf(name).length > 0);
}

export function sourcesOf(folder: string): string[] {
  return filesOf(folder).filter((name) => /\.tsx?$/.test(name));
}

/** Absolute paths of all files and folders below `folder`, except those in node_modules. */
export function filesOf(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => !name.includes("node_modules"))
    .map((name) => join(ROOT, folder, name));
}

/** The names of the folders in `path`, which is absolute. */
export function foldersIn(path: string): string[] {
  const folders = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map(({ name }) => name).sort();
}
