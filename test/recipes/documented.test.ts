/**
 * @file docs/recipes.md prints the recipe of `create/template`, every file verbatim: what is documented is what test/package.long.test.ts compiles
 * and tests, and documented.long.test.ts trains. After a change to the template, copy its files into the page.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const TEMPLATE = join(ROOT, "create/template/team");

test("docs/recipes.md prints each TypeScript file of the template verbatim, and no other", () => {
  const page = readFileSync(join(ROOT, "docs/recipes.md"), "utf8");
  const printed = new Map(
    [...page.matchAll(/^`([\w.]+\.ts)`\n\n```ts\n(.*?)^```$/gms)].map(([, name, code]) => [name, code]),
  );
  const files = readdirSync(TEMPLATE).filter((name) => name.endsWith(".ts"));
  expect([...printed.keys()].sort()).toEqual(files.sort());
  for (const name of files) expect(printed.get(name), name).toBe(readFileSync(join(TEMPLATE, name), "utf8"));
});
