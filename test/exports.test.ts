/** @file The public names: each entry of package.json lists its names, and each name has a docstring where it is declared. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type ESTree, parseSync } from "rolldown/utils";
import { expect, test } from "vitest";
import { declaredNames } from "./exported-names.ts";

const ROOT = resolve(import.meta.dirname, "..");
/** Matches text with a docstring. A file's header is not one: it documents only the file. */
const DOCSTRING = /\/\*\*(?:(?!\*\/|@file\b).)*\*\//s;

interface Name {
  /** The file of the declaration, then the name there. */
  readonly where: string;
  readonly name: string;
  readonly isDocumented: boolean;
}

test.each(entries())("every name that %s exports has a docstring", (entry) => {
  const names = namesOf(entry);
  const documented = new Set(names.filter(({ isDocumented }) => isDocumented).map(({ name }) => name));
  expect(names.length).toBeGreaterThan(0);
  // A Zod schema and its type share a name; the docstring of either is that of both.
  expect(names.filter(({ name }) => !documented.has(name)).map(({ where }) => where)).toEqual([]);
});

test.each(["examples/loop.ts", "examples/team.ts"])(
  "what %s imports from core/ is public: it can be copied",
  (example) => {
    const published = new Set(entries().flatMap((entry) => namesOf(entry).map(({ name }) => name)));
    const { body } = parseSync(example, readFileSync(join(ROOT, example), "utf8")).program;
    const imported = body.flatMap((statement) =>
      statement.type === "ImportDeclaration" && statement.source.value.startsWith("../core/")
        ? statement.specifiers.map(({ local }) => local.name)
        : [],
    );
    expect(imported.length).toBeGreaterThan(0);
    expect(imported.filter((name) => !published.has(name))).toEqual([]);
  },
);

function entries(): string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const built = Object.values<{ types?: string }>(exports).flatMap(({ types }) => types ?? []);
  return built.map((types) => types.replace(/^\.\/dist\/(.*)\.d\.ts$/, "$1.ts"));
}

/** What a file exports, one entry for each declaration. A name whose declaration is not found, as in `export *`, counts as undocumented. */
function namesOf(file: string): Name[] {
  const source = readFileSync(join(ROOT, file), "utf8");
  const { body } = parseSync(file, source).program;
  return body.flatMap((statement, index): Name[] => {
    if (statement.type === "ExportAllDeclaration") return [{ where: `${file} *`, name: "*", isDocumented: false }];
    if (statement.type !== "ExportNamedDeclaration") return [];
    const before = source.slice(body[index - 1]?.end ?? 0, statement.start);
    const own = declaredNames(statement.declaration);
    const from = statement.source?.value;
    const there = from?.startsWith(".") ? namesOf(join(file, "..", from)) : [];
    return [
      ...own.map((name) => ({ where: `${file} ${name}`, name, isDocumented: DOCSTRING.test(before) })),
      ...statement.specifiers.flatMap((specifier) => reexported(file, specifier, there)),
    ];
  });
}

function reexported(file: string, { local, exported }: ESTree.ExportSpecifier, there: readonly Name[]): Name[] {
  const textOf = (node: ESTree.ModuleExportName) => ("name" in node ? node.name : node.value);
  const name = textOf(exported);
  const found = there.filter((declared) => declared.name === textOf(local));
  if (found.length === 0) return [{ where: `${file} ${name}`, name, isDocumented: false }];
  return found.map((declared) => ({ ...declared, name }));
}
