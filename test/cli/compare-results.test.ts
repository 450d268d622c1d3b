/** @file What a comparison writes and reads back: its files, its records, and why it is unfinished. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { drawBands } from "../../cli/compare/bands.ts";
import { planRun } from "../../cli/compare/plan.ts";
import { keepRecord, readRecord } from "../../cli/compare/records.ts";
import { summarize } from "../../cli/compare/summary.ts";
import { resultFiles, unfinishedError } from "../../cli/compare.ts";
import { about, arms, finished, mgrpo, source } from "./compared-runs.ts";

test("a comparison without held-out evaluations has no chart of them", () => {
  const trained = arms.map((arm) => ({ ...arm, runs: arm.runs.map((run) => ({ ...run, heldOut: [] })) }));
  const files = resultFiles(summarize(about, trained), trained, "main");
  expect(Object.keys(files)).not.toContain("held-out.svg");
  expect(files["summary.md"]).not.toContain("held-out.svg");
  expect(files["summary.md"]).toContain("(reward.svg)");
  expect(Object.keys(resultFiles(summarize(about, arms), arms, "main"))).toContain("held-out.svg");
});

test("the scores by kind of question are under a heading that names their suite", () => {
  const page = resultFiles(summarize(about, arms), arms, "main")["summary.md"] ?? expect.fail();
  const [, below = expect.fail()] = page.split(
    "## By kind of question, after training: sampled (temperature 1), in percent\n\n",
  );
  expect(below.split("\n")[0]).toBe("| arm | even | odd |");
});

test("of arms whose lines have the same color, the second is dashed, in the chart and in its legend", () => {
  const points = [0, 1].map((x) => ({ x, y: 0.5, low: 0.4, high: 0.6 }));
  const chart = { title: "", subtitle: "", xName: "", xIsCount: true, marked: false };
  const dashes = (arms: number) => {
    const bands = Array.from({ length: arms }, (_, i) => ({ name: `arm ${i}`, points }));
    return drawBands({ ...chart, bands }).match(/stroke-dasharray/g)?.length ?? 0;
  };
  expect([dashes(10), dashes(11)]).toEqual([0, 1]);
});

test("the error of an unfinished comparison names the run that failed and why, or that its process exited", () => {
  expect(unfinishedError(["a", "b", "c"], new Map([["b", "disk full"]])).message).toBe(
    "run 'b' failed: disk full; 2 other runs unfinished; then run the same command to continue",
  );
  expect(unfinishedError(["a"], new Map()).message).toBe(
    "run 'a' failed: its process exited without finishing it; run the same command to resume",
  );
});

test("a record made with other settings is accepted with --mixed; one of another run never is", () => {
  const results = mkdtempSync(join(tmpdir(), "mgrpo-records-"));
  const planned = { ...planRun(source, mgrpo, 1, undefined), by: { commit: "c", machine: "m" } };
  const { run } = planned.config;
  keepRecord(results, planned, finished(run, 1, 6));
  const changed = { ...planned, set: ["temperature=0.5"] };
  expect(() => readRecord(results, changed, false)).toThrow(/other settings.*temperature=0\.9.*keep it with --mixed/);
  expect(readRecord(results, changed, true)?.mismatches[0]).toContain("temperature=0.9");
  const other = { ...planned, config: { ...planned.config, seed: 2 } };
  expect(() => readRecord(results, other, true)).toThrow(
    /is the record of another run: seed: 1 \(stored\), 2 .*or remove that file/,
  );
  writeFileSync(join(results, "runs", `${run}.json.gz`), "not gzip");
  expect(() => readRecord(results, planned, true)).toThrow(/is damaged \(.+\): remove it/);
  rmSync(results, { recursive: true });
});

test("a record that another release wrote in another form is refused for its commit; with --mixed, the error names what cannot be read", () => {
  const results = mkdtempSync(join(tmpdir(), "mgrpo-records-"));
  const planned = { ...planRun(source, mgrpo, 1, undefined), by: { commit: "c", machine: "m" } };
  const { run } = planned.config;
  keepRecord(results, planned, finished(run, 1, 6));
  const path = join(results, "runs", `${run}.json.gz`);
  const { report, ...record } = JSON.parse(gunzipSync(readFileSync(path)).toString("utf8"));
  const older = { ...record, by: { commit: "older", machine: "m", host: "h" }, report: { ...report, right: 3 } };
  writeFileSync(path, gzipSync(JSON.stringify(older)));
  expect(() => readRecord(results, planned, false)).toThrow(
    /json\.gz was made with other settings, or from another commit.*"older" \(stored\).*compare under another --name/,
  );
  expect(() => readRecord(results, planned, true)).toThrow(
    /json\.gz, which this release cannot read \(remove it, or compare under another --name\): .*"right"/,
  );
  rmSync(results, { recursive: true });
});
