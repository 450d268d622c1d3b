/** @file A run whose disk is full ends with one line, loses nothing, and resumes. */
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { RunReport } from "../../cli/run-report.ts";
import { mgrpo, mgrpoWith, readReport, trainRelay, workHere } from "./command-line.ts";

const TIMEOUT = 240_000;
const STEPS = ["--steps", "6"];
const folder = workHere();

const checksums = (run: string) =>
  Object.entries(RunReport.parse(readReport(folder, run)).agents).map(([agent, { sha256 }]) => [agent, sha256]);

test("on a full disk the run ends with one line, and resumes to the same weights once there is space", {
  timeout: 2 * TIMEOUT,
}, async () => {
  const full = join(folder, "disk-is-full");
  const env = { NODE_OPTIONS: `--import=${new URL("../fixtures/full-disk.mjs", import.meta.url).href}` };
  const ended = mgrpoWith({ ...env, MGRPO_TEST_FULL: full }, folder, ...trainRelay("full", ...STEPS));
  await vi.waitUntil(() => existsSync(join(folder, "runs/full/steps.jsonl")), { timeout: TIMEOUT });
  writeFileSync(full, "");
  const { code, stderr } = await ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^mgrpo: [^\n]*the disk of the store at [^\n]* is full [^\n]*free some space and run resume[^\n]*\n$/,
  );
  rmSync(full);
  expect(await mgrpo(folder, "resume", "full")).toMatchObject({ code: 0, stderr: "" });
  await mgrpo(folder, ...trainRelay("whole", ...STEPS));
  expect(checksums("full")).toEqual(checksums("whole"));
});
