/**
 * @file A user's project in a release: its rewards are one module that needs no packages, as in a function, and both parts are found through
 * MGRPO_PROJECT by the path that the run was started with, without an entry in any registry.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Tool } from "../../core/ports.ts";
import { openToolsModule } from "../../recipes/registry.ts";
import { openRewards } from "../../recipes/rewards.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-project-"));
const project = join(folder, "my-project");
/** As /var/task of a function, and dist/ of a release. */
const task = join(folder, "task");
const release = join(folder, "release");

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

const compile = (...args: readonly string[]): string =>
  execFileSync(process.execPath, ["--input-type=module", "--eval", SCRIPT, ...args], {
    encoding: "utf8",
    stdio: "pipe",
  });

beforeAll(() => {
  cpSync(join(ROOT, "create/template/team"), join(project, "recipes/team"), { recursive: true });
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

test("tools and rewards are bundled, two levels deep", () => {
  expect(readdirSync(join(task, "project")).sort()).toEqual(["recipes", "rewards-thread.mjs"]);
  expect(readdirSync(join(task, "project/recipes/team")).sort()).toEqual(["rewards.mjs", "tools.mjs"]);
});

test("a function finds the rewards, with no packages beside them", async () => {
  process.env["MGRPO_PROJECT"] = join(task, "project");
  const rewards = await openRewards({ recipe: "recipes/team" } as RunConfig, {});
  const question = { id: "q", kind: "own", level: 1, prompt: "?", answer: "cat", facts: { village: 7 } };
  const conversation = { prompt: "pet of Ada", turns: [], stop: "answered", answer: "cat", fault: null } as const;
  expect(await rewards.correct(question, { ...conversation, turns: [] })).toBe(1);
  expect(await rewards.correct(question, { ...conversation, turns: [], answer: "dog" })).toBe(0);
});

test("a worker finds the tools in the release", async () => {
  process.env["MGRPO_PROJECT"] = join(release, "dist/project");
  const { tools } = await openToolsModule("recipes/team");
  expect([...(tools as ReadonlyMap<string, Tool>).keys()]).toEqual(["lookup"]);
});

test("a project without a recipe is refused, and so is a missing recipe", async () => {
  expect(() => compile(task, join(folder, "none"))).toThrow(/no folder in it has recipe.ts, rewards.ts and tools.ts/);
  await expect(openToolsModule("nowhere")).rejects.toThrow(/recipe 'nowhere' does not exist/);
});
