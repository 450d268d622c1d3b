/**
 * @file An exported name means one thing: no two files export the same name, be it of a value or a type, and no file declares a private type
 * with the name of one that another file exports. Exceptions are listed here; projects may also share names of values.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { shadowedTypes, sharedNames } from "./exported-names.ts";
import { ROOT, sourceFolders, sourcesOf } from "./sources.ts";

/** The folders that are checked. `create` is left out: the project that it writes has names of its own. */
const FOLDERS = sourceFolders().filter((name) => name !== "create" && name !== "test");
/** Names that several files export, and why. */
const SHARED_NAMES = {
  duration: "the terminal's form of a time, and the dashboard's, which a browser loads alone",
  handleEvent: "what each Lambda function does, for the simulator",
  handler: "what AWS calls, in each Lambda function",
  learn: "an example is read alone",
  percent: "the terminal's form of a share, and the dashboard's",
  sha256: "functions may not import the engine",
  train: "an example is read alone",
};

/** Private types named like another file's exported type: an example is read alone, and uses the field's terms. */
const SHADOWED_TYPES = ["Rollout: examples/loop.ts, examples/team.ts", "Trajectory: examples/team.ts"];

/** The innermost folder around the file that has a recipe: recipes all have the same parts. */
function projectOf(file: string): string | undefined {
  const folder = dirname(file);
  if (!/^(recipes|examples)\//.test(folder)) return undefined;
  return existsSync(join(ROOT, folder, "recipe.ts")) ? folder : projectOf(folder);
}

const readSources = () =>
  new Map(FOLDERS.flatMap(sourcesOf).map((file) => [relative(ROOT, file), readFileSync(file, "utf8")] as const));

test("no two files export the same name, except those that are listed with a reason", () => {
  const sources = readSources();
  const shared = sharedNames(sources, projectOf);
  const unlisted = [...shared].filter(([name]) => !(name in SHARED_NAMES));
  expect(unlisted.map(([name, files]) => `${name}: ${files.join(", ")}`)).toEqual([]);
  expect(Object.keys(SHARED_NAMES).filter((name) => !shared.has(name))).toEqual([]);
});

test("a shared name is found, whether of values or types; projects may share names of values", () => {
  const find = (sources: Record<string, string>) =>
    [...sharedNames(new Map(Object.entries(sources)), (file) => /^\w+(?=\/)/.exec(file)?.[0])].flat(2);
  const [value, type, component] = [
    "export const A = 1;",
    "export type A = 1;",
    "export function A() { return <p />; }",
  ];
  expect(find({ "a.ts": value, "b.tsx": component, "c.ts": "const A = 1;" })).toEqual(["A", "a.ts", "b.tsx"]);
  expect(find({ "a.ts": value, "b.ts": type })).toEqual(["A", "a.ts", "b.ts"]);
  expect(find({ "a.ts": `${value} ${type}`, "b.ts": 'export { A } from "./a.ts";' })).toEqual([]);
  expect(find({ "one/a.ts": value, "two/a.ts": value })).toEqual([]);
  expect(find({ "one/a.ts": value, "one/b.ts": value })).toEqual(["A", "one/a.ts", "one/b.ts"]);
  expect(find({ "one/a.ts": value, "a.ts": value })).toEqual(["A", "one/a.ts", "a.ts"]);
  expect(find({ "one/a.ts": type, "two/a.ts": type })).toEqual(["A", "one/a.ts", "two/a.ts"]);
});

test("no file has a private type with the name of another file's exported type, except those that are listed", () => {
  const shadowed = [...shadowedTypes(readSources())].map(([name, files]) => `${name}: ${files.join(", ")}`);
  expect(shadowed.sort()).toEqual(SHADOWED_TYPES);
});

test("a shadowed type is found, schemas included; private functions and other constants may have any name", () => {
  const find = (sources: Record<string, string>) => [...shadowedTypes(new Map(Object.entries(sources)))].flat(2);
  const [type, schema] = ["export interface Aa {}", "export const Aa = z.int(); export type Aa = 1;"];
  const found = ["Aa", "b.ts"];
  for (const shadow of ["interface Aa {}", "type Aa = 1;", "class Aa {}", "enum Aa {}", "const Aa = z.int();"]) {
    expect(find({ "a.ts": type, "b.ts": shadow })).toEqual(found);
    expect(find({ "a.ts": schema, "b.ts": shadow })).toEqual(found);
  }
  expect(find({ "a.ts": type, "b.ts": "const Aa = z.int(); export type B = z.infer<typeof Aa>;" })).toEqual(found);
  expect(find({ "a.ts": "const Aa = z.int(); export type Aa = z.infer<typeof Aa>;" })).toEqual([]);
  expect(find({ "a.ts": type, "b.ts": 'import type { Aa } from "./a.ts"; export const b = (a: Aa) => a;' })).toEqual(
    [],
  );
  expect(find({ "a.ts": type, "b.ts": "function Aa(): void; function Aa() {}" })).toEqual([]);
  expect(
    find({ "a.ts": "export const AXIS = 1; export function size() {}", "b.ts": "const AXIS = 2; const size = 3;" }),
  ).toEqual([]);
  expect(find({ "a.ts": "interface Aa {}", "b.ts": "type Aa = 1;" })).toEqual([]);
});
