/**
 * @file `mgrpo init` in a folder without a package.json, then the first run: it trains the missing base models, here on too few
 * demonstrations to learn anything, and warns that the first step taught nothing.
 */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile } from "./command-line.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TEMPLATE = join(ROOT, "create/template/team");
const folder = projectOfFile();

test("it writes the template's recipe, and overwrites nothing", async () => {
  expect(await mgrpo(folder, "init")).toMatchObject({ code: 0, stdout: expect.stringContaining("Wrote team") });
  expect(readdirSync(join(folder, "team"))).toEqual(readdirSync(TEMPLATE));
  const again = await mgrpo(folder, "init");
  expect(again.code).toBe(1);
  expect(again.stderr).toMatch(/^mgrpo: team exists: name a folder that does not/);
});

test("the error names a folder that cannot be written, and says what to do", async () => {
  // A file where a folder has to be is refused to root as well.
  writeFileSync(join(folder, "file"), "");
  const { code, stderr } = await mgrpo(folder, "init", "file/team");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^mgrpo: file\/team cannot be written \(ENOTDIR\): name a folder that you can write to/);
});

test("train makes the missing base models, and warns that the first step taught nothing", {
  timeout: 120_000,
}, async () => {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(ROOT, join(folder, "node_modules", "mgrpo"), "junction");
  symlinkSync(join(ROOT, "node_modules", "zod"), join(folder, "node_modules", "zod"), "junction");
  const recipe = join(folder, "team", "recipe.ts");
  writeFileSync(recipe, readFileSync(recipe, "utf8").replace(/tokens: [\d_]+/g, "tokens: 2000"));
  const small = ["questionsPerStep=1", "rolloutsPerQuestion=2", "evaluation.suites=[]"].flatMap((set) => [
    "--set",
    set,
  ]);
  const { code, stdout, stderr } = await mgrpo(folder, "train", "team", "--steps", "1", ...small);
  expect(stderr).toMatch(/^making .*models\/main and .*models\/searcher from the recipe's demonstrations, once$/m);
  expect(readdirSync(join(folder, "team", "models", "main"))).toContain("model.safetensors");
  expect(stdout).toMatch(/the first step taught 'main' nothing: no rollout is well-formed/);
  expect(code).toBe(0);
});
