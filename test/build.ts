/** @file Around all tests: builds what they start in separate processes and threads, and gives them a temporary folder that is deleted after them. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const FOLDER = "mgrpo-tests-";

/** Vitest calls this for the whole run and for each project. The first call does the work. */
export function setup(): (() => void) | undefined {
  if (basename(tmpdir()).startsWith(FOLDER)) return undefined;
  execFileSync(process.execPath, ["build.mjs", "--fixtures"], { stdio: "inherit" });
  const folder = mkdtempSync(join(tmpdir(), FOLDER));
  // `tmpdir()` reads these variables, in the tests and in the processes that they start.
  for (const name of ["TMPDIR", "TEMP", "TMP"]) process.env[name] = folder;
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
