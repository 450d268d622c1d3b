/** @file The command line of an example: an argument that is not a number of steps is refused, even if a symbolic link starts the example. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["loop", "0"],
  ["team", "--steps"],
])("examples/%s.ts refuses '%s'", async (name, steps) => {
  expect(await endOf(join(ROOT, `dist/examples/${name}.js`), steps)).toEqual(refusalOf(steps));
});

test("an example that is started through a symbolic link reads its command line", async () => {
  const folder = mkdtempSync(join(tmpdir(), "linked-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  symlinkSync(ROOT, join(folder, "mgrpo"), "dir");
  expect(await endOf(join(folder, "mgrpo/dist/examples/loop.js"), "abc")).toEqual(refusalOf("abc"));
});

/** Exit code, standard output and standard error. */
function endOf(file: string, steps: string): Promise<unknown[]> {
  return new Promise((done) => {
    execFile(process.execPath, [file, steps], { cwd: ROOT }, (error, stdout, stderr) =>
      done([error?.code, stdout, stderr]),
    );
  });
}

const refusalOf = (steps: string) => [
  1,
  "",
  expect.stringContaining(`'${steps}' is not a number of steps: give a whole number`),
];
