/** @file `resume` and `eval` say that a run was trained by another release: what its config leaves to defaults may differ. */
import { mkdirSync } from "node:fs";
import { beforeAll, expect, test, vi } from "vitest";
import { planEvaluation } from "../../cli/evaluation-config.ts";
import { RunHistory } from "../../cli/local/history.ts";
import { otherRelease } from "../../cli/local/other-release.ts";
import { createRunFolder, type RunFolder, readStatus, writeStatus } from "../../cli/local/run-folder.ts";
import { resume } from "../../cli/resume.ts";
import { release } from "../../gpu-workers/release.ts";
import { chdirToProject, RELAY } from "./command-line.ts";
import { idleCloud } from "./idle-cloud.ts";
import { config } from "./records.ts";

chdirToProject();

const stored = { ...config, recipe: RELAY };
const current = release(process.env);
let folder: RunFolder;

beforeAll(() => {
  folder = createRunFolder(stored);
  mkdirSync(folder.checkpoints, { recursive: true });
  new RunHistory(stored, folder, idleCloud).save("stopped");
});

const trainedBy = (name: string) => writeStatus(folder, { ...readStatus(folder), release: name });
const explanation = `release 0.0.1+0 trained it, and this is ${current}`;

test("a run of this release, and one whose release is not recorded, are not mentioned", () => {
  expect(readStatus(folder).release).toBe(current);
  expect(otherRelease(readStatus(folder))).toBeUndefined();
  trainedBy("");
  expect(otherRelease(readStatus(folder))).toBeUndefined();
});

test("eval says that scores can differ from the run's report", async () => {
  trainedBy("0.0.1+0");
  const { notes } = await planEvaluation(stored.run, { set: [] }, { name: "relay" });
  expect(notes).toContain(`scores can differ from the report of run '${stored.run}': ${explanation}`);
});

test("resume says so before anything else", async () => {
  trainedBy("0.0.1+0");
  const printed = vi.spyOn(console, "error").mockReturnValue();
  await expect(resume(stored.run, {})).rejects.toThrow();
  expect(printed.mock.calls[0]?.[0]).toContain(`run '${stored.run}' may not go on as it began: ${explanation}`);
});
