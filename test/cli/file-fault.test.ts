/** @file Errors of files: one line says what to do. An error that no rule explains is reported as unexpected. */
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
  [
    "EFBIG",
    "file too large, write",
    /^a file may not grow further \(EFBIG: .*, write\): raise the limit on the size of/,
  ],
  ["ENOENT", "no such file or directory, open 'x'", /^unexpected: /],
])(
  "%s: a failed system call is explained with its remedy if the user can fix it, and reported as unexpected otherwise",
  (code, message, line) => {
    const fault = new Error(`${code}: ${message}`);
    expect(describe(Object.assign(fault, { code, syscall: "write" }))).toMatch(line);
  },
);

test("the error for a file where import would create a folder names its path", async () => {
  writeFileSync(join(folder, "file"), "");
  const gguf = join(import.meta.dirname, "../fixtures/gguf/tiny.gguf");
  const importing = importModel(gguf, { to: join(folder, "file", "model"), dtype: "fp32" });
  expect(await lineOf(importing)).toMatch(
    /^this path cannot be used \(ENOTDIR: .*file.*\): name another file or folder$/,
  );
});

test("the error for a folder given as a watched team's file names its path and says to name a file", async () => {
  const team = join(folder, "folder");
  mkdirSync(team);
  const watching = watch("inbox", { team, every: 1, results: join(folder, "results") });
  const reason = "EISDIR: illegal operation on a directory, read";
  const remedy = "it is a folder: move it away, or name a file";
  expect(await lineOf(watching)).toBe(`${team} cannot be read (${reason}): ${remedy}`);
});
