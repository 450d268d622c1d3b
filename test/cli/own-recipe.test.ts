/**
 * @file A user's recipe: the built commands in dist/ load its TypeScript from a folder without a package.json and from an ES module package. An
 * exception in its tools names their file. No base models are made for a run that cannot start. first-run.long.test.ts makes them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile } from "./command-line.ts";
import { createdTeam } from "./created-team.ts";

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

test("an exception in tools() while base models are made names the recipe's file, whatever the recipe's name is", async () => {
  const team = createdTeam(folder, "renamed");
  const recipe = join(team, "recipe.ts");
  writeFileSync(recipe, readFileSync(recipe, "utf8").replace('name: "team"', 'name: "village"'));
  const tools = readFileSync(join(team, "tools.ts"), "utf8").replace(
    /export const tools.*/,
    "export const tools = async () => { throw new Error(lookup.name); };",
  );
  writeFileSync(join(team, "tools.ts"), tools);
  const { code, stderr } = await mgrpo(folder, "pretrain", team);
  expect(stderr).toMatch(/^mgrpo: \S+renamed\/team\/tools\.ts: tools\(\) threw Error: lookup .* \[recipe-invalid\]\n$/);
  expect(code).toBe(1);
});

test("train makes no base models for a run whose name is taken", async () => {
  const team = createdTeam(folder, "named");
  mkdirSync(join(folder, "runs/taken"), { recursive: true });
  writeFileSync(join(folder, "runs/taken/config.json"), "{}");
  const { code, stderr } = await mgrpo(folder, "train", team, "--run", "taken");
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^mgrpo: run 'taken' exists at .*\n$/)]);
  expect(existsSync(join(team, "models"))).toBe(false);
});

test("ask names the command that makes a recipe's base models, if they are not made yet", async () => {
  const team = createdTeam(folder, "unmade");
  const { code, stderr } = await mgrpo(folder, "ask", "Who?", "--team", team);
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/models\/main has no model yet: .* pretrain \S*\/team \[not-found\]\n$/),
  ]);
});

test("train makes no base models if its questions cannot be read", async () => {
  const team = createdTeam(folder, "without-questions");
  const set = 'questions={"train":"absent.jsonl","heldOut":"recipe"}';
  const { code, stderr } = await mgrpo(folder, "train", team, "--set", set);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^mgrpo: .*absent\.jsonl.*\n$/)]);
});
