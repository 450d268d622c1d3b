/**
 * @file `mgrpo init`: the recipe that it writes, what it adds to .gitignore, and what it prints. first-run.long.test.ts trains that recipe.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { chdirToProject } from "./command-line.ts";
import { printed } from "./printed.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TEMPLATE = join(ROOT, "create/template/team");
const moduleFolder = (name: string) => join(ROOT, "node_modules", name);
const PACKAGES = {
  mgrpo: ROOT,
  zod: moduleFolder("zod"),
  tsx: moduleFolder("tsx"),
  typescript: moduleFolder("typescript"),
};
const folder = chdirToProject();

/** What `mgrpo init` prints in another working directory. */
async function initIn(project: string, ...args: string[]): Promise<string> {
  process.chdir(project);
  try {
    return await printed("init", ...args);
  } finally {
    process.chdir(folder);
  }
}

test("init writes the template's recipe, and overwrites nothing", async () => {
  expect(await printed("init")).toContain("Wrote team");
  expect(readdirSync(join(folder, "team"))).toEqual(readdirSync(TEMPLATE));
  await expect(printed("init")).rejects.toThrow(/^team already exists: give a new folder/);
});

test("the printed command trains the new recipe, even if its folder has the name of a recipe that comes with mgrpo", async () => {
  const project = mkdtempSync(join(folder, "project-"));
  expect(await initIn(project, "mine")).toContain(" train mine\n");
  expect(await initIn(project, "atlas")).toContain(" train ./atlas\n");
});

test("git ignores what the program writes; the project's own rules are kept, and none is written twice", async () => {
  const project = mkdtempSync(join(folder, "project-"));
  const ignore = join(project, ".gitignore");
  writeFileSync(ignore, "node_modules\n/runs\n*.log");
  const output = await initIn(project, "teams/mine");
  const added = ["/evaluations/", "/teams/mine/models/", "/mgrpo-cloud/", "cloud.json"];
  expect(output).toContain(`Added to .gitignore: ${added.join(" ")}\n`);
  expect(readFileSync(ignore, "utf8")).toBe(`node_modules\n/runs\n*.log\n${added.join("\n")}\n`);
  expect(await initIn(project, "other")).toContain("Added to .gitignore: /other/models/\n");
  expect(await initIn(project, "my [team]")).toContain("Added to .gitignore: /my \\[team]/models/\n");
  // A folder elsewhere is not part of this project.
  expect(await initIn(project, "../elsewhere")).not.toContain(".gitignore");
});

test("the output names the packages to install, unless the project already has them", async () => {
  const initWith = (...installed: (keyof typeof PACKAGES)[]) => {
    const project = mkdtempSync(join(folder, "project-"));
    mkdirSync(join(project, "node_modules"));
    for (const name of installed) symlinkSync(PACKAGES[name], join(project, "node_modules", name), "junction");
    return initIn(project);
  };
  expect(await initWith()).toContain("  npm install mgrpo zod\n");
  expect(await initWith("mgrpo")).toContain("  npm install zod\n");
  expect(await initWith()).toContain("  npm install --save-dev tsx typescript\n");
  expect(await initWith("tsx")).toContain("  npm install --save-dev typescript\n");
  expect(await initWith("mgrpo", "zod", "tsx", "typescript")).not.toContain("npm install");
});

test("init names the line that .npmrc lacks, and creates no .npmrc", async () => {
  const line = "Add ignore-scripts=true to .npmrc, unless a package of yours needs its install script: ";
  const project = mkdtempSync(join(folder, "project-"));
  expect(await initIn(project)).toContain(line);
  expect(existsSync(join(project, ".npmrc"))).toBe(false);
  writeFileSync(join(project, ".npmrc"), "fund=false\nignore-scripts = true\n");
  expect(await initIn(project, "other")).not.toContain(".npmrc");
});

test("the printed command runs the recipe's own test, whether or not the project is an ES module package", async () => {
  for (const type of ["module", "commonjs"]) {
    const project = mkdtempSync(join(folder, "project-"));
    writeFileSync(join(project, "package.json"), JSON.stringify({ type }));
    mkdirSync(join(project, "node_modules"));
    for (const [name, path] of Object.entries(PACKAGES))
      symlinkSync(path, join(project, "node_modules", name), "junction");
    const [, command = ""] = /^ {2}node (--import tsx --test .*)$/m.exec(await initIn(project, "my team")) ?? [];
    const args = [...command.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word);
    const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
    expect(status, `${type}: ${stdout}${stderr}`).toBe(0);
    expect(stdout, type).toMatch(/ pass [1-9]/);
  }
});

test("the train command that init prints can be copied, even for a folder with a space", async () => {
  const project = mkdtempSync(join(folder, "project-"));
  expect(await initIn(project, "my team")).toMatch(/ train "my team"\n/);
});

test("a .gitignore that cannot be written is an error that says what to add", async () => {
  const project = mkdtempSync(join(folder, "project-"));
  // Even root cannot write through a link into a folder that does not exist.
  symlinkSync("gone/ignore", join(project, ".gitignore"));
  await expect(initIn(project)).rejects.toThrow(
    /^\.gitignore cannot be written \(ENOENT\): add these rules to it, .*: node_modules\/ \/runs\/ /,
  );
});

test("the error names a folder that cannot be written, and says what to do", async () => {
  // Even root cannot write below a file.
  writeFileSync(join(folder, "file"), "");
  await expect(printed("init", "file/team")).rejects.toThrow(
    /^file\/team cannot be written \(ENOTDIR\): name a folder that you can write to/,
  );
});
