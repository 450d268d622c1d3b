/** @file The examples stay short, since researchers read and change them first, and the apps stay independent of mgrpo. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["loop", 200],
  ["team", 300],
])("examples/%s.ts can be read in one sitting: at most %d lines", (name, maxLines) => {
  expect(readFileSync(join(ROOT, `examples/${name}.ts`), "utf8").split("\n").length - 1).toBeLessThanOrEqual(maxLines);
});

test("app.ts of each app does not refer to mgrpo", () => {
  for (const name of ["ai-sdk-team", "openai-agents-team", "langgraph-team"]) {
    expect(readFileSync(join(ROOT, "examples", name, "app.ts"), "utf8")).not.toMatch(/mgrpo|core\/recipe/);
  }
});
