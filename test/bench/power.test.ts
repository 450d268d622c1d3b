/** @file Which comparisons `mgrpo bench power` reads. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../dist/bench/power.js");

/** Runs the bench beside a comparison, with this summary if there is one. */
async function measure(summary?: object): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-power-"));
  try {
    const comparison = join(folder, "results", "c");
    mkdirSync(join(comparison, "runs"), { recursive: true });
    if (summary) writeFileSync(join(comparison, "summary.json"), JSON.stringify(summary));
    return await promisify(execFile)(process.execPath, [BENCH], { cwd: folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("a comparison that has no summary yet is left out", async () => {
  await expect(measure()).rejects.toThrow("no comparison in results/: run 'mgrpo compare' in this folder first");
});

test("comparisons without two arms that share two seeds are refused, since they show nothing", async () => {
  await expect(measure({ arms: [{ label: "mgrpo", runs: [] }] })).rejects.toThrow(
    "no comparison in results/ has a second arm that shares two seeds with the first: compare several arms, with --seeds 2 or more",
  );
});
