/** @file Which tests have a process of their own (vitest.config.ts). */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { expect, test } from "vitest";
import { ALONE, LONG } from "../vitest.config.ts";
import { ROOT, sourcesOf } from "./sources.ts";

test("a test file that replaces a module has a process of its own: in a shared process, other files may import the same module", () => {
  const replacing = sourcesOf("test").filter((file) => /^vi\.mock\(/m.test(readFileSync(file, "utf8")));
  const paths = replacing.map((file) => relative(ROOT, file));
  expect(paths.length).toBeGreaterThan(0);
  const patterns = [...ALONE, ...LONG].map(regExpOf);
  expect(paths.filter((path) => !patterns.some((pattern) => pattern.test(path)))).toEqual([]);
});

const PARTS: Record<string, string> = {
  "**/": "(?:.+/)?",
  "*": "[^/]*",
  ".": "\\.",
  "{": "(?:",
  ",": "|",
  "}": ")",
};

/** A glob pattern as a regular expression. Supports `*`, `{a,b}`, and `**` before a slash. */
function regExpOf(glob: string): RegExp {
  const source = glob.replaceAll(/\*\*\/|\*|\.|[{,}]/g, (part) => PARTS[part] ?? part);
  return new RegExp(`^${source}$`);
}
