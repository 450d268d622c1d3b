/** @file A dashboard that follows a run parses each recorded step once, and its watch reads only the newest. */
import { appendFileSync, closeSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { readNewestStep, readSteps } from "../../cli/local/recorded-steps.ts";
import { runFolder } from "../../cli/local/run-folder.ts";
import { writeAtomically } from "../../cli/local/written-files.ts";
import { openRunWatcher } from "../../cli/ui/watch-runs.ts";
import { chdirToProject } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { RUN } from "./records.ts";

const project = chdirToProject();
const path = join(project, "runs", RUN, "steps.jsonl");
let firstLine = "";
beforeAll(async () => {
  await recordRun(project);
  firstLine = readFileSync(path, "utf8");
});
const lineOf = (step: number) => `${JSON.stringify({ ...JSON.parse(firstLine), step })}\n`;
const stepsRead = () => readSteps(runFolder(RUN)).map(({ step }) => step);

function damageFirstLine(): void {
  const file = openSync(path, "r+");
  writeSync(file, "damaged", 0);
  closeSync(file);
}

test("a line that was read is not parsed again; a line that a kill cut short is read once it is whole", () => {
  expect(stepsRead()).toEqual([0]);
  damageFirstLine();
  appendFileSync(path, lineOf(1) + lineOf(2).slice(0, 40));
  expect(stepsRead()).toEqual([0, 1]);
  appendFileSync(path, lineOf(2).slice(40));
  expect(stepsRead()).toEqual([0, 1, 2]);
  appendFileSync(path, "{}\n");
  expect(stepsRead).toThrow("steps.jsonl, line 4");
});

test("a file that replaces another is read from its beginning, even if it is longer", () => {
  writeAtomically(path, lineOf(7));
  expect(stepsRead()).toEqual([7]);
  writeAtomically(path, lineOf(8) + lineOf(9));
  expect(stepsRead()).toEqual([8, 9]);
  writeFileSync(path, lineOf(5));
  expect(stepsRead()).toEqual([5]);
});

test("a byte order mark at the start of the file is ignored", () => {
  writeAtomically(path, `\uFEFF${lineOf(3)}`);
  expect(stepsRead()).toEqual([3]);
  expect(readNewestStep(runFolder(RUN))?.step).toBe(3);
});

test("the watch of a run reads none but its newest step", async () => {
  writeAtomically(path, `damaged\n${lineOf(1)}`);
  const failures: string[] = [];
  const watcher = openRunWatcher((line) => failures.push(line));
  const pulse = await new Promise((show, reject) => watcher.subscribe(RUN, { show, fail: reject }));
  watcher.close();
  expect(pulse).toMatchObject({ closed: 1, state: "finished" });
  expect(failures).toEqual([]);
});
