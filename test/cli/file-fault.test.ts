/** @file Faults of files: what the user reads is one line that says what to do, and does not call it a bug of this program. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { importModel } from "../../cli/import-model.ts";
import { describe } from "../../cli/terminal/fail.ts";
import { watch } from "../../cli/watch.ts";
import { projectOfFile } from "./command-line.ts";

const folder = projectOfFile();

const lineOf = (work: Promise<unknown>): Promise<string> => work.then(() => "was accepted", describe);

test.each([
  [
    "ENOSPC",
    "no space left on device, write",
    /^the disk is full \(ENOSPC: .*, write\): free some space and try again$/,
  ],
  ["EROFS", "read-only file system, mkdir '/x'", /^access is denied \(EROFS: .*'\/x'\): give this user access, or/],
  ["ENOENT", "no such file or directory, open 'x'", /^unexpected: /],
])(
  "a system call that fails is explained, with what to do, if the user can fix it, and is unexpected otherwise: %s",
  (code, message, line) => {
    const fault = new Error(`${code}: ${message}`);
    expect(describe(Object.assign(fault, { code, syscall: "write" }))).toMatch(line);
  },
);

test("a file in the way of the folder that import writes is named", async () => {
  writeFileSync(join(folder, "file"), "");
  const gguf = join(import.meta.dirname, "../fixtures/gguf/tiny.gguf");
  const importing = importModel(gguf, { to: join(folder, "file", "model"), dtype: "fp32" });
  expect(await lineOf(importing)).toMatch(
    /^this path cannot be used \(ENOTDIR: .*file.*\): name another file or folder$/,
  );
});

test("a folder in place of a watched team's file is named", async () => {
  const team = join(folder, "folder");
  mkdirSync(team);
  const watching = watch("inbox", { team, every: 1, results: join(folder, "results") });
  expect(await lineOf(watching)).toMatch(/folder cannot be read \(EISDIR\)/);
});
