/** @file What makes a release another one: a byte of what workers run, and nothing else. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { hashOf, RELEASE_VARIABLE, release } from "../../gpu-workers/release.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-release-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("one changed byte is another release, as are another file or another name; a copy elsewhere is the same, and tests are no part of it", () => {
  const write = (tree: string, file: string, content: string) => {
    mkdirSync(join(folder, tree, file, ".."), { recursive: true });
    writeFileSync(join(folder, tree, file), content);
  };
  for (const part of ["core/a.ts", "adapters/b.ts", "gpu-workers/c.ts", "recipes/d/e.ts"])
    write("one", part, `// ${part}`);
  const of = (tree: string) => hashOf(join(folder, tree, "gpu-workers"));
  const first = of("one");
  expect(first).toMatch(/^[0-9a-f]{12}$/);
  for (const tree of ["two", "three", "four", "five"])
    cpSync(join(folder, "one"), join(folder, tree), { recursive: true });
  write("two", "test/a.test.ts", "// not run by workers");
  write("two", "core/a.d.ts", "// not run by anybody");
  expect(of("two")).toBe(first);
  write("three", "recipes/d/e.ts", "// Recipes/d/e.ts");
  write("four", "recipes/d/f.ts", "");
  rmSync(join(folder, "five/core/a.ts"));
  write("five", "core/b.ts", "// core/a.ts");
  expect(new Set(["one", "three", "four", "five"].map(of)).size).toBe(4);
});

test("a process takes its parent's word for it", () => {
  const said = (more: Record<string, string>) =>
    execFileSync(
      process.execPath,
      [
        "--import",
        "tsx",
        "-e",
        'import("./gpu-workers/release.ts").then((all) => console.log(all.release(process.env)))',
      ],
      { cwd: ROOT, encoding: "utf8", env: { ...process.env, ...more } },
    ).trim();
  expect(said({ [RELEASE_VARIABLE]: "9.9.9+parent" })).toBe("9.9.9+parent");
  expect(release({})).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{12}$/);
});
