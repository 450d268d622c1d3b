/** @file A run whose disk is full ends with one line, loses nothing, and resumes. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { chdirToProject, mgrpo, mgrpoWith, readReport, trainRelay } from "./command-line.ts";

const TIMEOUT = 480_000;
/** Far more steps than can close in the quarter of a second for which the cloud trusts its last measurement of free space. */
const STEPS = ["--steps", "12"];
const folder = chdirToProject();

const checksums = (run: string) =>
  Object.entries(RunReport.parse(readReport(folder, run)).agents).map(([agent, { sha256 }]) => [agent, sha256]);

test("on a full disk the run ends with one line, and resumes to the same weights once there is space", {
  timeout: 2 * TIMEOUT,
}, async () => {
  const preload = new URL("../fixtures/full-disk.mjs", import.meta.url).href;
  // The disk is full once this file exists: the first step creates it.
  const env = { NODE_OPTIONS: `--import=${preload}`, MGRPO_TEST_FULL: join(folder, "runs/full/steps.jsonl") };
  const { code, stderr } = await mgrpoWith(env, folder, ...trainRelay("full", ...STEPS));
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^mgrpo: [^\n]*the disk of the store at [^\n]* is full [^\n]*free some space and run resume[^\n]*\n$/,
  );
  expect(await mgrpo(folder, "resume", "full")).toMatchObject({ code: 0, stderr: "" });
  await mgrpo(folder, ...trainRelay("whole", ...STEPS));
  expect(checksums("full")).toEqual(checksums("whole"));
});
