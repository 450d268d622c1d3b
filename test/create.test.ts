/**
 * @file `npm create mgrpo`: the commands that it prints can be copied, and invalid options and an older Node.js are refused. In the new
 * project, git ignores what mgrpo writes, above all keys, but not what is to be committed. The same holds in this repository.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { afterAll, expect, test } from "vitest";
import { runFolder } from "../cli/local/run-folder.ts";
import { buildProgram } from "../cli/program.ts";

const CREATE = resolve(import.meta.dirname, "../create/index.js");
const folder = mkdtempSync(join(tmpdir(), "create-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The defaults of an option in a command and in all commands below it. */
function defaultsOf(command: Command, flag: string): unknown[] {
  const own = command.options.filter(({ long }) => long === flag).map(({ defaultValue }) => defaultValue);
  return [...own, ...command.commands.flatMap((inner) => defaultsOf(inner, flag))].filter(
    (value) => value !== undefined,
  );
}

/** Files in all places where the commands write by default. */
function writtenPaths(): string[] {
  const folders = ["--dir", "--results"].flatMap((flag) => defaultsOf(buildProgram(), flag).map(String));
  expect(folders).toEqual(expect.arrayContaining(["mgrpo-cloud", "evaluations"]));
  const run = relative(process.cwd(), runFolder("r").path);
  // docs/deploy.md has `mgrpo cloud serve` write the workers' keys to cloud.json.
  return ["cloud.json", `${run}/a`, ...folders.map((name) => `${name}/a`)];
}

/** Makes the folder a git repository; what it returns says whether git ignores a path there. */
function ignoredIn(project: string): (path: string) => boolean {
  execFileSync("git", ["init", "--quiet"], { cwd: project });
  return (path) => spawnSync("git", ["check-ignore", "--quiet", path], { cwd: project }).status === 0;
}

test("in a created project, git ignores the files that the program writes, but not the code and the comparisons", () => {
  const project = join(folder, "my-team");
  execFileSync(process.execPath, [CREATE, project]);
  const isIgnored = ignoredIn(project);
  const written = ["node_modules/mgrpo/a", "team/models/main/a", ...writtenPaths()];
  expect(written.filter((path) => !isIgnored(path))).toEqual([]);
  expect(["team/recipe.ts", "results/compare/runs/a.json.gz"].filter(isIgnored)).toEqual([]);
});

test("in this repository too, git ignores the files that the program writes, but not the code and the comparisons", () => {
  const project = join(folder, "repository");
  mkdirSync(project);
  // A copy, since the checkout may have ignore rules of its own, or no git.
  copyFileSync(resolve(import.meta.dirname, "../.gitignore"), join(project, ".gitignore"));
  const isIgnored = ignoredIn(project);
  expect(writtenPaths().filter((path) => !isIgnored(path))).toEqual([]);
  const kept = ["cli/runs.ts", "recipes/atlas/recipe.ts", "results/compare/runs/a.json.gz"];
  expect(kept.filter(isIgnored)).toEqual([]);
});

test("the commands that npm create mgrpo prints can be copied, even for a folder with a space", () => {
  const printed = execFileSync(process.execPath, [CREATE, "my team"], { cwd: folder, encoding: "utf8" });
  expect(printed).toContain('\n  cd "my team"\n  npm install\n');
  const special = execFileSync(process.execPath, [CREATE, "R&D's $team"], { cwd: folder, encoding: "utf8" });
  expect(special).toContain('\n  cd "R&D\'s \\$team"\n  npm install\n');
});

test.each([
  ["--help", "Unknown option '--help'"],
  ["--mgrpo", "Option '--mgrpo <value>' argument missing"],
])("%s alone is refused with the usage", (option, fault) => {
  const { stderr, status } = spawnSync(process.execPath, [CREATE, option], { cwd: folder, encoding: "utf8" });
  expect(stderr).toBe(`${fault}: usage: npm create mgrpo@latest <folder> [-- --mgrpo <archive of npm pack>]\n`);
  expect(status).toBe(1);
});

test("an older Node.js is refused with the version that is needed, and nothing is written", () => {
  const versions = '{ value: { ...process.versions, node: "18.20.4" } }';
  const older = `data:text/javascript,Object.defineProperty(process, "versions", ${versions})`;
  const run = spawnSync(process.execPath, ["--import", older, CREATE, "old"], { cwd: folder, encoding: "utf8" });
  expect(run.stderr).toMatch(/^mgrpo needs Node\.js 20\.20 or newer: this is v/);
  expect(run.status).toBe(1);
  expect(existsSync(join(folder, "old"))).toBe(false);
});
