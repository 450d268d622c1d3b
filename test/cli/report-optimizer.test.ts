/** @file The report of a finished run has what the probe found about a server's optimizer. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { exportCheckpoints, writeReport } from "../../cli/local/finish.ts";
import { RunStatus, runFolder } from "../../cli/local/run-folder.ts";
import { RunReport } from "../../cli/run-report.ts";
import { config, storeOfFinishedRun } from "./records.ts";
import { probe, recordProbe, withServerOptimizer } from "./server-optimizer.ts";
import { commitUntrainedTeam } from "./untrained-team.ts";

const status = RunStatus.parse({
  ...{ run: config.run, recipe: config.recipe, arm: config.arm, seed: config.seed, steps: 1, step: 1 },
  ...{ state: "finished", reason: "", pid: 0, environment: {}, heldOut: { before: null, after: null } },
  ...{ seconds: 9, scoringSeconds: 0.5, writes: { requests: 8, bytes: 4000, units: 12 } },
});

test("the report of a finished run has the probe's results for the agent that declares a server's optimizer, and none for the other", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-report-optimizer-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const base = join(folder, "base.safetensors");
  writeFileSync(base, Uint8Array.of(1, 2, 3));
  const store = await storeOfFinishedRun();
  await commitUntrainedTeam(store, base, Uint8Array.of(1, 2, 3));
  await recordProbe(store);
  const declared = withServerOptimizer(config);
  const agents = await exportCheckpoints(store, declared, join(folder, "checkpoints"), 1);
  const files = { ...runFolder(config.run), report: join(folder, "report.json"), curve: join(folder, "curve.svg") };
  await writeReport(declared, files, status, [], [], { gains: [], caseStudies: [] }, agents);
  const report = RunReport.parse(JSON.parse(readFileSync(files.report, "utf8")));
  expect(report.agents["main"]?.optimizer).toEqual(probe);
  expect(report.agents["searcher"]).not.toHaveProperty("optimizer");
});
