/** @file The command line end to end, with real processes and the embedded cloud: a run trains, is stopped and killed, and resumes. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { HeldOutScores } from "../../cli/held-out-scores.ts";
import { RunReport } from "../../cli/run-report.ts";
import { sumTallies, wilson } from "../../core/training/confidence-interval.ts";
import {
  chdirToProject,
  mgrpo,
  parsedLines,
  readReport,
  relaySettings,
  signaledAtStep,
  trainRelay,
} from "./command-line.ts";
import { printed, printedJson } from "./printed.ts";

const TIMEOUT = 480_000;
/** Enough steps that a signal at the first reported step arrives before the last step, even if a step takes only a few milliseconds. */
const STEPS = 24;
const ALL = ["--steps", String(STEPS)];
const NUMBERS = Array.from({ length: STEPS }, (_, step) => step);
const folder = chdirToProject();

const kinds = (stdout: string) => parsedLines(stdout).map(({ kind }) => kind);
const checksums = (run: string) =>
  Object.entries(RunReport.parse(readReport(folder, run)).agents).map(([agent, { sha256 }]) => [agent, sha256]);

test("a run that trains to its end has a report, a chart and checkpoints, and prints one JSON object per line", {
  timeout: TIMEOUT,
}, async () => {
  const { code, stdout, stderr } = await mgrpo(folder, ...trainRelay("whole", ...ALL));
  expect(stderr).toBe("");
  expect(code).toBe(0);
  expect(kinds(stdout).filter((kind) => kind !== "waiting")).toEqual(
    expect.arrayContaining(["config", "step", "evaluation", "ended", "summary"]),
  );
  const report = RunReport.parse(readReport(folder, "whole"));
  expect(report.perStep.map(({ step }) => step)).toEqual(NUMBERS);
  expect(report.heldOut.before?.n).toBeGreaterThan(0);
  expect(report.heldOut.after?.greedy?.n).toBe(report.heldOut.before?.n);
  for (const { n, correct, runs, interval } of report.evaluations) {
    expect({ runs, interval }).toEqual({ runs: [{ n, correct }], interval: wilson({ n, correct }) });
  }
  const heldOut = z
    .array(HeldOutScores)
    .parse(JSON.parse(readFileSync(join(folder, "runs/whole/held-out.json"), "utf8")));
  for (const { team, suite, n, correct } of report.evaluations) {
    const perQuestion = heldOut.find((one) => one.team === team && one.suite === suite)?.questions ?? [];
    expect(sumTallies(perQuestion)).toEqual({ n, correct });
  }
  expect(report.caseStudies.map(({ study, suite }) => `${study} ${suite}`).sort()).toEqual([
    "delegation greedy",
    "delegation sampled",
  ]);
  for (const { before, after } of report.caseStudies) expect(Math.min(before.n, after.n)).toBeGreaterThan(0);
  expect(report.store.bytesPerRollout).toBeGreaterThan(0);
  expect(report.seconds.scoring).toBeGreaterThan(0);
  for (const { checkpoint, version } of Object.values(report.agents)) {
    expect(version).toBe(STEPS);
    expect(existsSync(join(folder, checkpoint, "model.safetensors"))).toBe(true);
  }
  expect(readFileSync(join(folder, "runs/whole/curve.svg"), "utf8")).toMatch(/^<svg/);
});

test("a run can be shown and listed, and is not overwritten", { timeout: TIMEOUT }, async () => {
  const both = ["evaluation", "evaluation"];
  expect(kinds(await printed("show", "whole"))).toEqual([
    ...both,
    ...NUMBERS.map(() => "step"),
    ...both,
    "state",
    "spent",
  ]);
  await printed("show", "whole", "1/0", "--html", "pages/page.html");
  expect(readFileSync(join(folder, "pages/page.html"), "utf8")).toContain("delegate → searcher");
  expect(JSON.parse(await printed("runs"))).toMatchObject({ run: "whole", state: "finished", step: STEPS });
  const damaged = join(folder, "runs", "hurt");
  mkdirSync(damaged);
  writeFileSync(join(damaged, "config.json"), "{}");
  const rows = (await printed("runs")).trim().split("\n");
  expect(rows.map((row) => JSON.parse(row))).toMatchObject([{ run: "hurt", state: "damaged" }, { run: "whole" }]);
  rmSync(damaged, { recursive: true });
  expect(await printed("show", "whole", "1/0/0")).toContain("advantage");
  await printed("show", "whole", "cases", "--html", "cases.html");
  const cases = readFileSync(join(folder, "cases.html"), "utf8");
  expect(cases.match(/"sideBySide":true/g)).toHaveLength(3);
  expect(cases.match(/before training/g)).toHaveLength(3);
  expect(kinds(await printed("resume", "whole"))).toEqual(["summary"]);
  const steps = join(folder, "runs/whole/steps.jsonl");
  rmSync(steps);
  await printed("resume", "whole");
  expect(parsedLines(readFileSync(steps, "utf8"))).toMatchObject(NUMBERS.map((step) => ({ step })));
  await expect(printed(...trainRelay("whole"))).rejects.toThrow(/run 'whole' exists at .*resume whole/);
  await expect(printed("resume", "nobody")).rejects.toThrow(/no run 'nobody' .*whole/);
});

test("a run that is stopped with Ctrl-C, resumed, killed and resumed ends with the weights of an undisturbed run", {
  timeout: TIMEOUT,
}, async () => {
  // Without evaluations: they change no weights.
  const settings = [...ALL, ...relaySettings()];
  expect(await signaledAtStep("SIGINT", folder, ...trainRelay("torn", ...settings))).toMatchObject({ code: 130 });
  expect(await printed("runs")).toMatch(/"run":"torn".*"state":"stopped"/);
  const exported = await printedJson("export", "torn");
  const { version, checkpoint } = exported.at(-1) as { version: number; checkpoint: string };
  expect(version).toBeGreaterThan(0);
  expect(checkpoint).toMatch(new RegExp(`checkpoints-step${version}/searcher$`));
  expect(existsSync(join(folder, checkpoint, "model.safetensors"))).toBe(true);
  // A truncated line, as on a full disk.
  appendFileSync(join(folder, "runs", "torn", "steps.jsonl"), '{"step":');
  expect(await signaledAtStep("SIGKILL", folder, "resume", "torn")).toMatchObject({ code: null });
  expect(await printed("runs")).toMatch(/"run":"torn".*"state":"stopped"/);
  const file = join(folder, "runs", "torn", "config.json");
  const begun = readFileSync(file, "utf8");
  writeFileSync(file, begun.replace(`"steps": ${STEPS}`, `"steps": ${STEPS + 1}`));
  const edited = await mgrpo(folder, "resume", "torn");
  expect(edited.stderr).toContain(`steps: ${STEPS} (stored), ${STEPS + 1} (requested)`);
  writeFileSync(file, begun);
  expect(await mgrpo(folder, "resume", "torn")).toMatchObject({ code: 0, stderr: "" });
  expect(checksums("torn")).toEqual(checksums("whole"));
  expect(RunReport.parse(readReport(folder, "torn")).perStep.map(({ step }) => step)).toEqual(NUMBERS);
});
