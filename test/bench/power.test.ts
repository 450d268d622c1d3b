/** @file Which comparisons `mgrpo bench power` reads. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../dist/bench/power.js");

test("a comparison that has no summary yet is left out", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-power-"));
  try {
    mkdirSync(join(folder, "results", "unfinished", "runs"), { recursive: true });
    const measured = promisify(execFile)(process.execPath, [BENCH], { cwd: folder });
    await expect(measured).rejects.toThrow("no comparison in results/: run 'mgrpo compare' in this folder first");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
