/**
 * @file `npm create mgrpo`: in the new project, git ignores what the program writes, above all keys, but not what is to be committed. The
 * commands that it prints can be copied, and an older Node.js is refused.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
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

test("in a created project, git ignores the files that the program writes, but not the code and the comparisons", () => {
  const project = join(folder, "my-team");
  execFileSync(process.execPath, [CREATE, project]);
  execFileSync("git", ["init", "--quiet"], { cwd: project });
  const isIgnored = (path: string): boolean => {
    try {
      execFileSync("git", ["check-ignore", "--quiet", path], { cwd: project });
      return true;
    } catch {
      return false;
    }
  };
  const folders = ["--dir", "--results"].flatMap((flag) => defaultsOf(buildProgram(), flag).map(String));
  expect(folders).toEqual(expect.arrayContaining(["mgrpo-cloud", "evaluations"]));
  const run = relative(process.cwd(), runFolder("r").path);
  // docs/deploy.md has `mgrpo cloud serve` write the workers' keys to cloud.json.
  const written = [
    "cloud.json",
    "node_modules/mgrpo/a",
    "team/models/main/a",
    `${run}/a`,
    ...folders.map((name) => `${name}/a`),
  ];
  expect(written.filter((path) => !isIgnored(path))).toEqual([]);
  expect(["team/recipe.ts", "results/compare/runs/a.json.gz"].filter(isIgnored)).toEqual([]);
});

test("the commands that it prints can be copied, even for a folder with a space", () => {
  const printed = execFileSync(process.execPath, [CREATE, "my team"], { cwd: folder, encoding: "utf8" });
  expect(printed).toContain('\n  cd "my team"\n  npm install\n');
});

test("an older Node.js is refused with the version that is needed, and nothing is written", () => {
  const versions = '{ value: { ...process.versions, node: "18.20.4" } }';
  const older = `data:text/javascript,Object.defineProperty(process, "versions", ${versions})`;
  const run = spawnSync(process.execPath, ["--import", older, CREATE, "old"], { cwd: folder, encoding: "utf8" });
  expect(run.stderr).toMatch(/^mgrpo needs Node\.js 20\.20 or newer: this is v/);
  expect(run.status).toBe(1);
  expect(existsSync(join(folder, "old"))).toBe(false);
});
