/** @file The build and its release: a build rewrites only what is stale, and a release changes only with what workers run. */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { release } from "../../gpu-workers/release.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-release-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const write = (file: string, content: string) => {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), content);
};
const builtIn = (checkout: string) => {
  cpSync(join(ROOT, "build.mjs"), join(checkout, "build.mjs"));
  execFileSync(process.execPath, ["build.mjs"], { cwd: checkout, stdio: "inherit" });
  return readFileSync(join(checkout, "dist/release"), "utf8");
};
const built = () => builtIn(folder);

test("a changed or removed worker file changes the release; a new test or function does not", () => {
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
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

test("a build skips up-to-date files, even if mtimes have fractions of a second, and rebuilds a source that became older", () => {
  const names = Array.from({ length: 20 }, (_, i) => `m${i}`);
  for (const [i, name] of names.entries()) {
    write(`core/${name}.ts`, `export const x = ${i};`);
    utimesSync(join(folder, `core/${name}.ts`), 1, 1_795_337_631 + i * 0.0137);
  }
  const inodes = () => names.map((name) => statSync(join(folder, `dist/core/${name}.js`)).ino);
  built();
  const before = inodes();
  built();
  expect(inodes()).toEqual(before);
  utimesSync(join(folder, "core/m0.ts"), 1, 1);
  built();
  expect(inodes().map((inode, i) => inode === before[i])).toEqual(names.map((_, i) => i > 0));
});

test("the page is rebuilt once when a file that it imports from outside ui/app changes", () => {
  write("page/ui/app/main.tsx", 'import { color } from "../palette.ts";\nconsole.log(color);');
  write("page/ui/app/export.tsx", "console.log();");
  write("page/ui/palette.ts", 'export const color = "red";');
  const checkout = join(folder, "page");
  symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
  builtIn(checkout);
  const page = join(checkout, "dist/ui/app/main.js");
  const builds = () => {
    const { ino } = statSync(page);
    builtIn(checkout);
    return statSync(page).ino === ino ? "kept" : "rebuilt";
  };
  expect(builds()).toBe("kept");
  write("page/ui/palette.ts", 'export const color = "blue";');
  expect([builds(), builds()]).toEqual(["rebuilt", "kept"]);
  expect(readFileSync(page, "utf8")).toContain("blue");
});

test("a checkout below a hidden folder is built, without the hidden folders in it", () => {
  write(".hidden/checkout/core/a.ts", "export const a = 1;");
  write(".hidden/checkout/core/.b/c.ts", "export const c = 1;");
  const checkout = join(folder, ".hidden/checkout");
  symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
  builtIn(checkout);
  expect(readdirSync(join(checkout, "dist/core"))).toEqual(["a.js"]);
});

test("a release file that another build writes while this one compiles is replaced at the end", () => {
  const compiler = `
    import { writeFileSync } from "node:fs";
    export async function build({ outdir }) {
      writeFileSync(outdir + "/release", "of another build");
      return { outputFiles: [{ path: outdir + "/core/a.js", contents: "export const a = 1;" }] };
    }
  `;
  write("other/node_modules/esbuild/package.json", '{ "name": "esbuild", "type": "module", "exports": "./index.js" }');
  write("other/node_modules/esbuild/index.js", compiler);
  write("other/core/a.ts", "export const a = 1;");
  mkdirSync(join(folder, "other/dist"));
  expect(builtIn(join(folder, "other"))).toMatch(/^[0-9a-f]{12}$/);
});

test("the release is the package version and the hash of the build", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  expect(release({})).toBe(`${version}+${readFileSync(join(ROOT, "dist/release"), "utf8")}`);
});
