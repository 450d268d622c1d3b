/** @file Which comparisons, and which of their suites, `mgrpo bench power` reads. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const BENCH = join(import.meta.dirname, "../../dist/bench/power.js");

/** The record of a run whose teams answered one of two questions of each suite correctly. */
function recordOf(run: string, seed: number, suites: readonly string[]) {
  const questions = [1, 0].map((correct, i) => ({ n: 1, correct, question: `q${i}`, kind: "k", studies: {} }));
  const heldOut = suites.flatMap((suite) =>
    [0, 4].map((team) => ({ team, suite, temperature: 1, closedBook: false, questions })),
  );
  return { report: { run, seed, steps: 4 }, heldOut };
}
type RunRecord = ReturnType<typeof recordOf>;

/** Runs the bench in a folder whose only comparison has these records, and this summary if one is given. */
async function measure(summary?: object, records: readonly RunRecord[] = []): Promise<{ stdout: string }> {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-power-"));
  try {
    const comparison = join(folder, "results", "c");
    mkdirSync(join(comparison, "runs"), { recursive: true });
    if (summary) writeFileSync(join(comparison, "summary.json"), JSON.stringify(summary));
    for (const record of records) {
      writeFileSync(join(comparison, "runs", `${record.report.run}.json.gz`), gzipSync(JSON.stringify(record)));
    }
    return await promisify(execFile)(process.execPath, [BENCH], { cwd: folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("a comparison that has no summary yet is left out; if there is no other, the error is one line", async () => {
  await expect(measure()).rejects.toMatchObject({
    stderr: "mgrpo: no comparison in results/: run 'mgrpo compare' in this folder first [not-found]\n",
  });
});

test("comparisons without two arms that share two seeds are refused, since they show nothing", async () => {
  await expect(measure({ arms: [{ label: "mgrpo", runs: [] }] })).rejects.toThrow(
    "no comparison in results/ has a second arm that shares two seeds with the first: compare several arms, with --seeds 2 or more",
  );
});

test("a suite that only one run of the first arm has is left out: it needs two seeds", async () => {
  const both = ["long", "short"];
  const records = [
    ...[recordOf("a1", 1, ["short"]), recordOf("a2", 2, both), recordOf("a3", 3, ["short"])],
    ...[recordOf("b1", 1, both), recordOf("b2", 2, both), recordOf("b3", 3, both)],
  ];
  const runsOf = (arm: string) => [1, 2, 3].map((seed) => ({ run: `${arm}${seed}` }));
  const arms = ["a", "b"].map((label) => ({ label, runs: runsOf(label) }));
  const { stdout } = await measure({ arms }, records);
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toMatchObject([{ bench: "power.c.b", suite: "short", seeds: 3 }]);
});
