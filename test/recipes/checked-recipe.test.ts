/** @file A user's recipe.ts that is of the wrong kind, or whose functions throw, is refused in one line that names the file. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Question } from "../../core/contracts/question.ts";
import type { TeamRollout } from "../../core/recipe.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { openRecipe } from "../../recipes/registry.ts";
import { trainQuestions } from "../fixtures/relay/questions.ts";

const folder = mkdtempSync(join(tmpdir(), "odd-recipes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const NAMED = "name: 'odd', config: { steps: 1 }, questions() { throw new Error('no file'); }";

const CARE = "{ name: 'care', expected: 'cares', checks({ kind }) { return { none: [], two: [true, false] }[kind]; } }";

test.each([
  ["null", "'recipe' is not an object: export one with name, config and questions"],
  ["() => ({})", "'recipe' is not an object: export one with name, config and questions"],
  // An unhandled rejection would fail the test run.
  ["Promise.reject(new Error('no key'))", "'recipe' is a promise: await it where the module loads"],
  [`{ ${NAMED}, ask: 'why?' }`, "'ask' is not a function"],
  [`{ ${NAMED}, demonstrations: [] }`, "'demonstrations' is not a function"],
  [`{ ${NAMED}, caseStudies: {} }`, "'caseStudies' is not an array"],
  [
    `{ ${NAMED}, caseStudies: [{ name: 'care', checks() {} }] }`,
    "'caseStudies[0]' needs the strings 'name' and 'expected'",
  ],
  [`{ ${NAMED}, caseStudies: [${CARE}, ${CARE}] }`, "two case studies have the name 'care': give each its own"],
  [`{ ${NAMED}, baseModels: {} }`, "'baseModels' is not an array"],
  [`{ ${NAMED}, baseModels: [undefined] }`, "'baseModels[0]' is not an object"],
])("a recipe that is %s is refused with the reason", async (exported, reason) => {
  const own = mkdtempSync(join(folder, "odd-"));
  writeFileSync(join(own, "recipe.mjs"), `export const recipe = ${exported};`);
  await expect(openRecipe(own)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringContaining(`recipe.mjs: ${reason}`),
  });
});

test.each([
  [
    "async () => ({ steps: 1 })",
    "config() returned a promise: await it where the module loads, outside of any function",
  ],
  ["async () => { throw new Error('no key'); }", "config() returned a promise: await it"],
  ["Promise.resolve({ steps: 1 })", "config is a promise: await it"],
  ["undefined", "config is undefined: give an object with steps and agents, or a function that returns one"],
  ["() => null", "config() is null: give an object"],
  ["[]", "config is an array: give an object"],
  ["'atlas'", "config is a value of type string: give an object"],
])("a recipe whose config is %s is refused with the reason", async (config, reason) => {
  const own = mkdtempSync(join(folder, "odd-"));
  writeFileSync(join(own, "recipe.mjs"), `export const recipe = { name: "odd", config: ${config}, questions() {} };`);
  const recipe = await openRecipe(own);
  expect(() => resolveConfig(recipe, { run: "any", seed: 1, arm: "mgrpo" })).toThrow(`recipe.mjs: ${reason}`);
});

test("an exception in questions(), ask(), files() or demonstrations, and a malformed question from ask(), are reported as errors of the recipe", async () => {
  const own = mkdtempSync(join(folder, "odd-"));
  const failing = "*[Symbol.iterator]() { yield { prompt: '?', turns: [] }; throw new Error('no data'); }";
  const base = `{ folder: "models/main", files() { throw new Error("no words"); }, demonstrations: () => ({ ${failing} }) }`;
  const body = `export const recipe = {
    ${NAMED},
    ask(prompt) { if (prompt === "") throw new Error("no prompt"); return { prompt }; },
    demonstrations: () => ({ ${failing} }),
    baseModels: [${base}],
  };`;
  writeFileSync(join(own, "recipe.mjs"), body);
  const { questions, ask, demonstrations, baseModels: [base0 = expect.fail()] = [] } = await openRecipe(own);
  expect(() => questions(1)).toThrow(/recipe\.mjs: questions\(\) threw Error: no file \(at .*recipe\.mjs:2:/);
  expect(() => ask?.("")).toThrow(/recipe\.mjs: ask\(\) threw Error: no prompt \(at .*recipe\.mjs:3:/);
  expect(() => ask?.("?")).toThrow(/recipe\.mjs: the question that ask\(\) returned: id: /);
  const threw = /threw Error: no data \(at .*recipe\.mjs:\d+:\d+\)$/;
  expect(() => [...(demonstrations?.("main", "mgrpo", 1) ?? [])]).toThrow(threw);
  expect(() => [...base0.demonstrations()]).toThrow(threw);
  expect(() => base0.files()).toThrow(/files\(\) of base model 'models\/main' threw Error: no words/);
});

test("a case study whose checks() returns anything but a list of booleans, such as nothing, is an error of the recipe: it would count as a failed check", async () => {
  const own = mkdtempSync(join(folder, "odd-"));
  writeFileSync(join(own, "recipe.mjs"), `export const recipe = { ${NAMED}, caseStudies: [${CARE}] };`);
  const [study = expect.fail()] = (await openRecipe(own)).caseStudies ?? [];
  const checks = (kind: string) => study.checks({ ...trainQuestions[0], kind } as Question, {} as TeamRollout);
  expect(checks("none")).toEqual([]);
  expect(checks("two")).toEqual([true, false]);
  expect(() => checks("other")).toThrow(
    /recipe\.mjs: case study 'care': checks\(\) for question 'train-amber' did not return a list of booleans: return one, empty if there is nothing to check$/,
  );
});
