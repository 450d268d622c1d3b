/** @file A user's TypeScript recipe, loaded by the built commands in dist/ from a folder without a package.json, and from an ES module package. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile } from "./command-line.ts";

const folder = projectOfFile();

test.each([
  ["not a package", {}],
  ["an ES module package", { "package.json": '{ "type": "module" }' }],
])("a recipe loads from a folder that is %s", async (name, more) => {
  const recipe = join(folder, name);
  mkdirSync(recipe);
  const files = {
    ...more,
    "questions.ts": "export const words: readonly string[] = [];",
    "recipe.ts": `
      import { words } from "./questions.ts";
      const agents: Record<string, { model: string }> = { main: { model: "m", delegates: words } };
      export const recipe = { name: "mine", config: () => ({ steps: 1, agents }), questions: () => ({ train: [], heldOut: [] }) };`,
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(recipe, file), text);
  const { code, stderr } = await mgrpo(folder, "train", recipe, "--run", "mine", "--set", "seeed=1");
  expect(stderr).toMatch(/^mgrpo: config of run 'mine': Unrecognized key: "seeed"/);
  expect(code).toBe(1);
});
