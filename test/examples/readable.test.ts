/** @file The examples stay short, since researchers read and change them first, and the TypeScript apps stay independent of mgrpo. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["loop", 200],
  ["team", 300],
])("examples/%s.ts can be read in one sitting: at most %d lines", (name, maxLines) => {
  expect(readFileSync(join(ROOT, `examples/${name}.ts`), "utf8").split("\n").length - 1).toBeLessThanOrEqual(maxLines);
});

const APPS = readdirSync(join(ROOT, "examples"))
  .map((name) => `examples/${name}/app.ts`)
  .filter((file) => existsSync(join(ROOT, file)));

test("there are three apps in TypeScript", () => expect(APPS).toHaveLength(3));

test.each(APPS)("%s does not refer to mgrpo", (file) => {
  expect(readFileSync(join(ROOT, file), "utf8")).not.toMatch(/mgrpo|core\/recipe/);
});
