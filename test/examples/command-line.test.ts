/** @file The steps in an example's command line: what is not a number of steps is refused, instead of training nothing. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["loop", "abc"],
  ["loop", "0"],
  ["team", "--steps"],
])("examples/%s.ts refuses '%s'", async (name, steps) => {
  const ended = await new Promise((done) => {
    execFile(
      process.execPath,
      [join(ROOT, `dist/examples/${name}.js`), steps],
      { cwd: ROOT },
      (error, stdout, stderr) => done([error?.code, stdout, stderr]),
    );
  });
  expect(ended).toEqual([1, "", expect.stringContaining(`'${steps}' is not a number of steps: give a whole number`)]);
});
