/**
 * @file What both packages would contain, as far as it can be told without declarations: test/package.long.test.ts packs them. Every link of
 * a packed page leads to a packed file, or into a folder that docs/README.md says only the repository has.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import * as z from "zod";

const ROOT = resolve(import.meta.dirname, "..");
const Listing = z.tuple([z.object({ files: z.array(z.object({ path: z.string() })) })]);
const Package = z.object({ exports: z.record(z.string(), z.union([z.string(), z.object({ default: z.string() })])) });

/** Paths of what `npm pack` takes from a folder of this repository. */
function packed(folder: string): string[] {
  const output = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: join(ROOT, folder),
    encoding: "utf8",
    stdio: "pipe",
    maxBuffer: 16 * 2 ** 20,
  });
  const [{ files }] = Listing.parse(JSON.parse(output));
  return files.map(({ path }) => path);
}

const FOLDERS = [".", "create"];
const filesOf = new Map<string, readonly string[]>();
beforeAll(() => {
  for (const folder of FOLDERS) filesOf.set(folder, packed(folder));
});
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** Folders that, by docs/README.md, only the repository has. */
function unpackedFolders(): string[] {
  const [sentence = ""] =
    /^Links into .* lead to files that only the repository has/m.exec(read("docs/README.md")) ?? [];
  return [...sentence.matchAll(/`(\w+\/)`/g)].map(([, name = ""]) => name);
}

/** The files of the package that the page links to, pictures included. */
function linksOf(folder: string, page: string): string[] {
  const targets = [...read(join(folder, page)).matchAll(/\]\(([^)#\s]+)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target)).map((target) => join(dirname(page), target));
}

test.each(FOLDERS)("%s: links of packed pages lead to packed files, or to the repository's folders", (folder) => {
  const files = filesOf.get(folder) ?? [];
  const unpacked = unpackedFolders();
  const isUnpacked = (path: string) => unpacked.some((name) => path.startsWith(name));
  expect(unpacked).toContain("test/");
  expect(files.filter(isUnpacked)).toEqual([]);
  const pages = files.filter((file) => file.endsWith(".md"));
  const links = pages.flatMap((page) => linksOf(folder, page).map((target) => ({ page, target })));
  expect(links.filter(({ target }) => !files.includes(target) && !isUnpacked(target))).toEqual([]);
});

test("the files that headers of the exported modules name are packed", () => {
  const files = filesOf.get(".") ?? [];
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
