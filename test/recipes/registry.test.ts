/**
 * @file Recipes are found by name, by path, or in a user's own folder. What is unknown or malformed is refused; the
 * error says what to write.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";
import { tools as atlasTools } from "../../recipes/atlas/tools.ts";
import { openNamedRecipe, openRecipe, openRollout, openToolsModule } from "../../recipes/registry.ts";
import { isBundled, openRewards } from "../../recipes/rewards.ts";

const folder = mkdtempSync(join(tmpdir(), "recipe-"));
afterAll(() => rmSync(folder, { recursive: true }));

const configOf = (recipe: string) => ({ ...resolveConfig(atlas, { run: "any", seed: 1, arm: "mgrpo" }), recipe });

test.each(["atlas", "recipes/atlas", "./recipes/atlas/"])("%s is this repository's atlas", async (name) => {
  expect((await openRecipe(name)).name).toBe("atlas");
  expect(typeof (await openRewards(configOf(name), {})).correct).toBe("function");
  expect((await openToolsModule(name)).tools).toHaveProperty("size");
});

test("for a recipe of this repository without an app, the error says so, not that the recipe does not exist", async () => {
  await expect(openRollout("atlas")).rejects.toThrow("recipe 'atlas' has no rollout.ts: runner 'recipe' runs the app");
});

test("parts are imported from your own folder; an error names a part that lacks its export or cannot be loaded; tools are optional", async () => {
  writeFileSync(join(folder, "rewards.mjs"), "export const rewards = { correct: () => 1, expert: () => 0.5 };");
  writeFileSync(join(folder, "recipe.mjs"), "export const other = 1;");
  expect((await openRewards(configOf(folder), {})).judge).toBeUndefined();
  await expect(openRecipe(folder)).rejects.toThrow(`${join(folder, "recipe.mjs")} exports no 'recipe'`);
  expect((await openToolsModule(folder)).tools).toEqual(new Map());
  writeFileSync(join(folder, "tools.mjs"), "throw new Error('no key');");
  await expect(openToolsModule(folder)).rejects.toThrow(/tools\.mjs cannot be loaded: no key/);
});

test("your own recipe may have the name of one of this repository's", async () => {
  const project = join(folder, "project");
  const own = join(project, "recipes/atlas");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = { correct: () => 0.25, expert: () => 1 };");
  vi.stubEnv("MGRPO_PROJECT", project);
  onTestFinished(() => void vi.unstubAllEnvs());
  // With the repository as the working directory, the path is the repository's own recipe.
  expect(isBundled("recipes/atlas")).toBe(true);
  vi.spyOn(process, "cwd").mockReturnValue(folder);
  onTestFinished(() => void vi.restoreAllMocks());
  expect(isBundled("recipes/atlas")).toBe(false);
  expect(isBundled("atlas")).toBe(true);
  const rewards = await openRewards(configOf("recipes/atlas"), {});
  expect(await rewards.correct(question, conversation)).toBe(0.25);
});

test("the name of a recipe of this repository opens its tools, even beside a folder of that name without tools.ts", async () => {
  const project = join(folder, "namesake");
  mkdirSync(join(project, "atlas"), { recursive: true });
  writeFileSync(join(project, "atlas/recipe.mjs"), "export const recipe = {};");
  vi.stubEnv("MGRPO_PROJECT", project);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect((await openToolsModule("atlas")).tools).toBe(atlasTools);
});

test("a name that a recipe of this repository and a user's folder share is refused, and the folder's path is not", async () => {
  const project = join(folder, "shared-name");
  const own = join(project, "atlas");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "recipe.mjs"), "export const recipe = { name: 'mine', config() {} };");
  expect((await openNamedRecipe("atlas")).name).toBe("atlas");
  vi.spyOn(process, "cwd").mockReturnValue(project);
  onTestFinished(() => void vi.restoreAllMocks());
  await expect(openNamedRecipe("atlas")).rejects.toMatchObject({
    code: "config-invalid",
    message: `recipe 'atlas' comes with mgrpo, but there is also ${join(own, "recipe.mjs")}: write ./atlas to use yours, or rename its folder to use mgrpo's`,
  });
  expect((await openNamedRecipe("./atlas")).name).toBe("mine");
  expect((await openNamedRecipe("tally")).name).toBe("tally");
  // A stored run of the repository's recipe can still be resumed.
  expect((await openRecipe("atlas")).name).toBe("atlas");
});

test("a recipe may be a frozen object", async () => {
  const own = join(folder, "frozen");
  mkdirSync(own);
  writeFileSync(join(own, "recipe.mjs"), "export const recipe = Object.freeze({ name: 'frozen', config() {} });");
  expect((await openRecipe(own)).name).toBe("frozen");
});

test("a recipe may be an instance of a class with private fields", async () => {
  const own = join(folder, "private");
  mkdirSync(own);
  const body = `class Own {
    #made = "made";
    name = "private";
    config() { return { steps: this.#made }; }
    questions() { return this.#made; }
    ask(prompt) { return { id: this.#made, kind: "k", level: 1, prompt, answer: "", facts: null }; }
    note() { return this.#made; }
    demonstrations() { return [this.#made]; }
  }
  export const recipe = new Own();`;
  writeFileSync(join(own, "recipe.mjs"), body);
  const recipe = await openRecipe(own);
  const results = [
    recipe.config("mgrpo", () => undefined).steps,
    recipe.questions(1),
    recipe.ask?.("?").id,
    recipe.note?.(question),
    ...(recipe.demonstrations?.("main", "mgrpo", 1) ?? []),
  ];
  expect(results).toEqual(Array(5).fill("made"));
});

test("the config of a recipe that is an instance of a class may be an object", async () => {
  const own = join(folder, "config-object");
  mkdirSync(own);
  const body = "class Own { name = 'own'; config = { steps: 1 }; questions() { return this.name; } }";
  writeFileSync(join(own, "recipe.mjs"), `${body}\nexport const recipe = new Own();`);
  const recipe = await openRecipe(own);
  expect([recipe.config("mgrpo", () => undefined), recipe.questions(1)]).toEqual([{ steps: 1 }, "own"]);
});

test("a folder named like a member of Object.prototype is a recipe like any other", async () => {
  const own = join(folder, "constructor");
  mkdirSync(own);
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = { correct: () => 1, expert: () => 1 };");
  vi.stubEnv("MGRPO_PROJECT", folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(isBundled("constructor")).toBe(false);
  expect(typeof (await openRewards(configOf("constructor"), {})).correct).toBe("function");
});

test("rewards that are a function are opened with the run's config and the environment", async () => {
  const own = join(folder, "judged");
  mkdirSync(own);
  const opened =
    "({ config, environment }) => ({ judge: config.run + environment.KEY, correct: () => 1, expert: () => 1 })";
  writeFileSync(join(own, "rewards.mjs"), `export const rewards = ${opened};`);
  expect((await openRewards(configOf(own), { KEY: "-key" })).judge).toBe("any-key");
});

test.each([
  ["k".repeat(64), true],
  ["gpt-5_mini.v2", true],
  ["k".repeat(65), false],
  ["k".repeat(2000), false],
  ["", false],
  ["a/../b", false],
  ["two\nlines", false],
  ["judge\n", false],
  [null, false],
])("the name of a judge is 1 to 64 letters, digits, '_', '.' or '-': %j", async (judge, isName) => {
  const own = mkdtempSync(join(folder, "named-"));
  const rewards = `{ judge: ${JSON.stringify(judge)}, correct: () => 1, expert: () => 1 }`;
  writeFileSync(join(own, "rewards.mjs"), `export const rewards = ${rewards};`);
  const opened = openRewards(configOf(own), {});
  if (isName) return expect((await opened).judge).toBe(judge);
  const message = await opened.then(
    () => expect.fail("accepted"),
    (error: Error) => error.message,
  );
  expect(message).toMatch(/rewards\.mjs: judge is '.{0,81}': name it with 1 to 64 letters, digits, '_', '\.' or '-'$/s);
});

const question: Question = { id: "q7", prompt: "?", answer: "a", level: 1, kind: "k", facts: {} };
const conversation: Conversation = { prompt: "?", turns: [], stop: "answered", answer: "a", fault: null };

test.each([
  ["null.length", /rewards\.mjs: correct\(\) for question 'q7' threw TypeError: .*null.* \(at .*rewards\.mjs:3:\d+\)$/],
  [
    "Number.NaN",
    /rewards\.mjs: correct\(\) for question 'q7' returned NaN: return a number from 0 to 1, or \{ score, turns \}$/,
  ],
  ["7", /returned 7: return/],
  ["undefined", /returned undefined: return/],
  ["'1'", /returned '1': return/],
  ["({ score: '1' })", /returned \{ score: '1' \} \(score: .*\): return a number from 0 to 1, or \{ score, turns \}$/],
  ["({ score: 1, turns: [1, 2] })", /returned \{ score: 1, turns: \[ 1, 2 \] \} \(turns\.1: .*\): return/],
  ["Array(99).fill('a\\n')", /returned \[ 'a\\n', .* 89 more items \] \(.*\): return/],
  ["({ score: 1, reason: 'x' })", /returned \{ score: 1, reason: 'x' \} \(Unrecognized key: "reason"\): return/],
  ["new Error('no such fact')", /returned Error: no such fact \(score: .*\): return a number/],
  ["Promise.reject(new Error('no such fact'))", /threw Error: no such fact \(at .*rewards\.mjs:3:\d+\)$/],
  // As Node.js writes the frame of an anonymous async function that awaits; the test runner leaves out `async`.
  [
    "Promise.reject(Object.assign(new Error('late'), { stack: 'Error\\n    at async ' + import.meta.url + ':3:7' }))",
    /threw Error: late \(at (?!async )\S*rewards\.mjs:3:7\)$/,
  ],
])("rewards that return or throw %s fail with an error naming file, function and question", async (returned, line) => {
  const own = mkdtempSync(join(folder, "faulty-"));
  const body = `export const rewards = {\n correct: () =>\n  ${returned},\n expert: () => 1 };`;
  writeFileSync(join(own, "rewards.mjs"), body);
  const rewards = await openRewards(configOf(own), {});
  await expect(rewards.correct(question, conversation)).rejects.toMatchObject({
    code: "rewards-invalid",
    retryable: false,
    message: expect.stringMatching(line),
  });
  expect(await rewards.expert(question, "main", conversation)).toBe(1);
});

test("an exception in the function that opens rewards is the recipe's error", async () => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(join(own, "rewards.mjs"), "export const rewards = ({ config }) => config.judge.model;");
  await expect(openRewards(configOf(own), {})).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(
      /rewards\.mjs: rewards\(\) threw TypeError: .*undefined.* \(at .*rewards\.mjs:1:\d+\)$/,
    ),
  });
});

test("an exception in a recipe's config or in a case study is the recipe's error; one in a note is shown in the note's place", async () => {
  const own = mkdtempSync(join(folder, "faulty-"));
  const body = `class Faulty {
    name = "faulty";
    config() { return null.agents; }
    questions() { return this.name; }
    note({ facts }) { return facts.no.such; }
    caseStudies = [{ name: "care", expected: "cares", checks: () => [true, null.length] }];
  }
  export const recipe = new Faulty();`;
  writeFileSync(join(own, "recipe.mjs"), body);
  const { config, note, ...recipe } = await openRecipe(own);
  const thrown = (call: () => unknown) => {
    try {
      return call();
    } catch (error) {
      return error;
    }
  };
  const fault = (line: RegExp) => ({ code: "recipe-invalid", message: expect.stringMatching(line) });
  const at = String.raw`threw TypeError: .* \(at .*recipe\.mjs`;
  const resolving = thrown(() => config("mgrpo", () => undefined));
  expect(resolving).toMatchObject(fault(new RegExp(String.raw`recipe\.mjs: config\(\) ${at}:3:\d+\)$`)));
  const checking = thrown(() => recipe.caseStudies?.[0]?.checks(question, { conversation, invocations: [] }));
  const call = String.raw`recipe\.mjs: case study 'care': checks\(\) for question 'q7'`;
  expect(checking).toMatchObject(fault(new RegExp(`${call} ${at}:6:`)));
  const failed = String.raw`^the recipe's note failed: \S*recipe\.mjs: note\(\)`;
  expect(note?.(question)).toMatch(new RegExp(`${failed} ${at}:5:`));
  expect((await openRecipe(own)).questions(1)).toBe("faulty");
});

test.each([
  "null",
  "{}",
  "() => {}",
  "async () => ({ correct: () => 1, expert: () => 1 })",
  // An unhandled rejection would fail the test run.
  "async () => { throw new Error('no key'); }",
])("rewards that are %s are refused when they are opened", async (exported) => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(join(own, "rewards.mjs"), `export const rewards = ${exported};`);
  await expect(openRewards(configOf(own), {})).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/rewards\.mjs: 'rewards' has no correct\(\): export an object/),
  });
});

test("the error for an unknown recipe lists the known ones, and says where a path was looked for", async () => {
  await expect(openRecipe("atlass")).rejects.toMatchObject({
    code: "recipe-invalid",
    message:
      "recipe 'atlass' does not exist: name a folder with recipe.ts, rewards.ts and tools.ts, or one of: atlas, atlas-two-subs, deep-research, gazetteer, tally",
  });
  await expect(openRecipe("recipes/mine")).rejects.toThrow(
    `recipe 'recipes/mine' does not exist in ${process.cwd()}: name a folder with`,
  );
});

test.each(["{}", "{ name: '' }", "{ name: 7 }"])("a recipe that is %s is refused: it has no name", async (exported) => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(join(own, "recipe.mjs"), `export const recipe = ${exported};`);
  await expect(openRecipe(own)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/recipe\.mjs: 'recipe' has no name: give it one/),
  });
});
