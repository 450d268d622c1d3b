/** @file A recipe of one's own in TypeScript, as processes load it: from dist/, in a folder that is no package, and in one that is. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile } from "./command-line.ts";

const folder = projectOfFile();

test.each([
  ["no package", {}],
  ["a package of modules", { "package.json": '{ "type": "module" }' }],
])("%s", async (name, more) => {
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
