/** @file What makes a release another one: a byte of what workers run, and nothing else. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { release } from "../../gpu-workers/release.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-release-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a changed byte of what workers run is another release, a file more or less too; a test, a function or a second build is not", () => {
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  cpSync(join(ROOT, "build.mjs"), join(folder, "build.mjs"));
  const write = (file: string, content: string) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), content);
  };
  const built = () => {
    execFileSync(process.execPath, ["build.mjs"], { cwd: folder, stdio: "inherit" });
    return readFileSync(join(folder, "dist/release"), "utf8");
  };
  write("core/a.ts", "export const a = 1;");
  write("recipes/b/c.md", "Compare.");
  const first = built();
  expect(first).toMatch(/^[0-9a-f]{12}$/);
  write("functions/d.ts", "export const d = 1;");
  write("test/e.test.ts", "export const e = 1;");
  expect(built()).toBe(first);
  write("core/a.ts", "export const a = 2;");
  const changed = built();
  write("recipes/b/c.md", "Compare!");
  const reworded = built();
  rmSync(join(folder, "recipes/b"), { recursive: true });
  expect(new Set([first, changed, reworded, built()]).size).toBe(4);
});

test("a process is of the version and the files that it runs", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  expect(release({})).toBe(`${version}+${readFileSync(join(ROOT, "dist/release"), "utf8")}`);
});
