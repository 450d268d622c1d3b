/**
 * @file A user's project, bundled for functions and for a release: a recipe's rewards are one module that needs no packages, and all parts
 * are found through MGRPO_PROJECT by the path that the run was started with, without an entry in any registry.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { JudgeConfig } from "../../core/contracts/judge.ts";
import type { Tool } from "../../core/ports.ts";
import type { RolloutContext } from "../../core/recipe.ts";
import { isolatedRewards } from "../../recipes/isolated-rewards.ts";
import { openRollout, openToolsModule } from "../../recipes/registry.ts";
import { openRewards } from "../../recipes/rewards.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-project-"));
const project = join(folder, "my-project");
/** These stand for the folder of a function (/var/task) and that of an unpacked release. */
const task = join(folder, "task");
const release = join(folder, "release");

const question = { id: "q", kind: "own", level: 1, prompt: "?", answer: "cat", facts: { village: 7 } };
const conversation = { prompt: "pet of Ada", turns: [], stop: "answered", answer: "cat", fault: null } as const;

const SCRIPT = `
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { compileProject } from "${pathToFileURL(join(ROOT, "build-project.mjs"))}";
const [project, ...folders] = process.argv.slice(1);
for (const [path, contents] of await compileProject(project, ["mgrpo", "zod"])) {
  for (const folder of folders) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), contents);
  }
}
`;

/** As docs/recipes.md says. */
const JUDGED = `
import { judgedRewards, openLanguageModel } from "mgrpo/judges";
import type { OpenRewards } from "mgrpo/recipe";
export const rewards: OpenRewards = ({ config, environment }) =>
  judgedRewards({ model: openLanguageModel(config.judge.model, { environment }), config: config.judge });
`;
/** A package in CommonJS, imported by a recipe that has a `require` of its own. */
const DIGEST = `const { createHash } = require("node:crypto");
exports.digest = (text) => createHash("sha256").update(text).digest("hex");`;
const DIGESTED = `
import { createRequire } from "node:module";
import { digest } from "digest";
const require = createRequire(import.meta.url);
const { EOL } = require("node:os");
export const rewards = { correct: (_question, { answer }) => Number(digest(answer + EOL) === digest("cat" + EOL)), expert: () => 0 };
export const tools = new Map([[digest("cat").slice(0, 4), {}]]);
`;
/** As docs/your-own-agents.md says: an app instead of tools. */
const ROLLOUT = `
import type { Rollout } from "mgrpo/recipe";
export const rollout: Rollout = async ({ question }) => ({ answer: question.prompt });
`;

const compileIn = (cwd: string, ...args: readonly string[]): string =>
  execFileSync(process.execPath, ["--input-type=module", "--eval", SCRIPT, ...args], {
    cwd,
    encoding: "utf8",
    stdio: "pipe",
  });
const compile = (...args: readonly string[]): string => compileIn(process.cwd(), ...args);

beforeAll(() => {
  cpSync(join(ROOT, "create/template/team"), join(project, "recipes/team"), { recursive: true });
  const recipe = (name: string) => join(project, "recipes", name);
  for (const name of ["judged", "digested", "app"]) cpSync(recipe("team"), recipe(name), { recursive: true });
  writeFileSync(join(recipe("judged"), "rewards.ts"), JUDGED);
  for (const part of ["rewards", "tools"]) writeFileSync(join(recipe("digested"), `${part}.ts`), DIGESTED);
  rmSync(join(recipe("app"), "tools.ts"));
  writeFileSync(join(recipe("app"), "rollout.ts"), ROLLOUT);
  mkdirSync(join(project, "node_modules/digest"), { recursive: true });
  writeFileSync(join(project, "node_modules/digest/package.json"), "{}");
  writeFileSync(join(project, "node_modules/digest/index.js"), DIGEST);
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  for (const folder of [project, release]) {
    mkdirSync(join(folder, "node_modules"), { recursive: true });
    symlinkSync(ROOT, join(folder, "node_modules", "mgrpo"), "junction");
    symlinkSync(join(ROOT, "node_modules", "zod"), join(folder, "node_modules", "zod"), "junction");
  }
  compile(project, join(task, "project"), join(release, "dist/project"));
});

afterAll(() => {
  delete process.env["MGRPO_PROJECT"];
  rmSync(folder, { recursive: true, force: true });
});

test("the tools, apps and rewards of recipes two levels deep are bundled", () => {
  expect(readdirSync(join(task, "project")).sort()).toEqual(["recipes", "rewards-thread.mjs"]);
  expect(readdirSync(join(task, "project/recipes")).sort()).toEqual(["app", "digested", "judged", "team"]);
  expect(readdirSync(join(task, "project/recipes/app")).sort()).toEqual(["rewards.mjs", "rollout.mjs"]);
  expect(readdirSync(join(task, "project/recipes/team")).sort()).toEqual(["rewards.mjs", "tools.mjs"]);
});

test("the modules do not depend on where the project is: its release is the same on every machine", () => {
  const [other, moved] = [join(folder, "another/machine"), join(folder, "moved")];
  cpSync(project, join(other, "team-project"), { recursive: true });
  symlinkSync(other, join(folder, "linked"), "junction");
  compileIn(other, join(folder, "linked/team-project"), moved);
  const files = readdirSync(moved, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".mjs"));
  expect(files).toContain(join("recipes", "digested", "rewards.mjs"));
  for (const file of files) {
    const text = readFileSync(join(moved, file), "utf8");
    expect(text === readFileSync(join(task, "project", file), "utf8"), file).toBe(true);
    expect(text).not.toContain("team-project");
  }
});

test("a function finds the rewards, with no packages beside them", async () => {
  process.env["MGRPO_PROJECT"] = join(task, "project");
  const rewards = await openRewards({ recipe: "recipes/team" } as RunConfig, {});
  expect(await rewards.correct(question, { ...conversation, turns: [] })).toBe(1);
  expect(await rewards.correct(question, { ...conversation, turns: [], answer: "dog" })).toBe(0);
});

test("a function finds rewards that are opened with a judge", async () => {
  process.env["MGRPO_PROJECT"] = join(task, "project");
  const model = { provider: "openai", model: "gpt-5-mini", keyVariable: "MGRPO_JUDGE_KEY" };
  const judge = JudgeConfig.parse({ model, criteria: { correct: "c", expert: "e" } });
  const rewards = await openRewards({ recipe: "recipes/judged", judge } as RunConfig, { MGRPO_JUDGE_KEY: "k" });
  expect(rewards.judge).toMatch(/^[0-9a-f]{16}$/);
  expect(await rewards.correct(question, { ...conversation, turns: [] })).toBe(1);
});

test("a bundled CommonJS package may use Node.js's built-in modules, beside a `require` of the recipe's own", async () => {
  // In a thread, as in a function: vitest would give the module a `require`.
  process.env["MGRPO_PROJECT"] = join(task, "project");
  const openInThread = isolatedRewards({}, pathToFileURL(join(task, "project/rewards-thread.mjs")));
  const rewards = await openInThread({ recipe: "recipes/digested" } as RunConfig);
  expect(await rewards.correct(question, { ...conversation, turns: [] })).toBe(1);
  const tools = pathToFileURL(join(release, "dist/project/recipes/digested/tools.mjs"));
  const show = `const { tools } = await import("${tools}"); process.stdout.write([...tools.keys()].join());`;
  expect(execFileSync(process.execPath, ["--input-type=module", "--eval", show], { encoding: "utf8" })).toBe("77af");
});

test("a function opens the project's recipe, even one with the name of a recipe of this repository", async () => {
  const other = join(folder, "other");
  cpSync(join(project, "recipes/team"), join(other, "atlas"), { recursive: true });
  writeFileSync(join(other, "atlas/rewards.ts"), "export const rewards = { correct: () => 0.25, expert: () => 1 };");
  const bundled = join(folder, "other-task/project");
  compile(other, bundled);
  process.env["MGRPO_PROJECT"] = bundled;
  const openInThread = isolatedRewards({}, pathToFileURL(join(bundled, "rewards-thread.mjs")));
  const rewards = await openInThread({ recipe: "atlas/" } as RunConfig);
  expect(await rewards.correct(question, { ...conversation, turns: [] })).toBe(0.25);
});

test("a worker finds the tools in the release", async () => {
  process.env["MGRPO_PROJECT"] = join(release, "dist/project");
  const { tools } = await openToolsModule("recipes/team");
  expect([...(tools as ReadonlyMap<string, Tool>).keys()]).toEqual(["lookup"]);
});

test("a worker finds an app in the release, without tools", async () => {
  process.env["MGRPO_PROJECT"] = join(release, "dist/project");
  const rollout = await openRollout("recipes/app");
  expect(await rollout({ question } as unknown as RolloutContext)).toEqual({ answer: "?" });
  expect(await openToolsModule("recipes/app")).toEqual({ tools: new Map() });
});

test("rewards that import the engine are refused, with the file and what to do", () => {
  const other = join(folder, "with-engine");
  cpSync(join(project, "recipes/team"), join(other, "team"), { recursive: true });
  const source =
    'import { openSampler } from "mgrpo/engine";\nexport const rewards = { correct: openSampler, expert: () => 0 };';
  writeFileSync(join(other, "team/rewards.ts"), source);
  expect(() => compile(other, join(folder, "none"))).toThrow(
    /team\/rewards\.ts:1:.*rewards run in functions, which do not have mgrpo\/engine: import it in tools\.ts/,
  );
});

test("a project without a recipe is not compiled, and a missing recipe is not opened", async () => {
  expect(() => compile(task, join(folder, "none"))).toThrow(
    /no folder in it, at most 2 levels down, has recipe.ts and rewards.ts/,
  );
  await expect(openToolsModule("nowhere")).rejects.toThrow(/recipe 'nowhere' does not exist/);
});
