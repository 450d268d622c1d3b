/**
 * @file `npm run check:python-team`: trains the agents of the app in examples/python-team, which uses the `openai`
 * package from PyPI, for two steps. Not part of CI: it needs Python and a package index. Exit code 1 if a rollout or the
 * training fails, 2 if the check cannot run here.
 */
import { type ChildProcessByStdio, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { RunReport } from "../../cli/run-report.ts";
import { makePython } from "../python.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const APP = join(ROOT, "examples/python-team");
const RUN = "python-team";
const SETTINGS = ["questionsPerStep=2", "rolloutsPerQuestion=4", "evaluation.suites=[]"];

async function main(folder: string): Promise<string> {
  const bin = makePython(folder, ["openai==2.8.1"], "60 MB");
  const pages = join(folder, "pages.json");
  execFileSync(join(ROOT, "node_modules/.bin/tsx"), [join(APP, "export-pages.ts"), pages]);
  const environment = { ...process.env, MGRPO_RUNNER_SECRET: randomBytes(24).toString("base64url") };
  const app = spawn(join(bin, "python"), [join(APP, "app.py"), pages], {
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    await listening(app);
    const settings = SETTINGS.flatMap((setting) => ["--set", setting]);
    const command = [join(ROOT, "dist/cli/mgrpo.js"), "train", APP, "--run", RUN, "--steps", "2", ...settings];
    const { status } = spawnSync(process.execPath, command, {
      cwd: folder,
      env: environment,
      stdio: ["ignore", "ignore", "inherit"],
    });
    if (status !== 0) return `training ended with exit code ${status}`;
  } finally {
    app.kill();
  }
  return faultIn(join(folder, "runs", RUN));
}

/** The app prints a line when it is ready to take attempts. */
async function listening(app: ChildProcessByStdio<null, Readable, null>): Promise<void> {
  const exited = once(app, "exit").then(() => Promise.reject(new Error("the app exited before it took attempts")));
  await Promise.race([once(app.stdout, "data"), exited]);
}

/** What went wrong; empty if every rollout of both steps finished and both agents were trained. */
function faultIn(run: string): string {
  const { agents } = RunReport.parse(JSON.parse(readFileSync(join(run, "report.json"), "utf8")));
  const versions = ["main", "searcher"].map((agent) => agents[agent]?.version);
  if (versions.some((version) => version !== 2)) return `the versions are ${versions}, not 2, 2`;
  const steps = readFileSync(join(run, "steps.jsonl"), "utf8").trim().split("\n");
  const excluded = steps.map((line) => (JSON.parse(line) as { excluded: number }).excluded);
  return excluded.every((count) => count === 0) ? "" : `rollouts were excluded: ${excluded}`;
}

const folder = mkdtempSync(join(tmpdir(), "mgrpo-python-team-"));
try {
  const fault = await main(folder);
  console.log(fault || "the app in Python trained both agents for two steps");
  if (fault) process.exitCode = 1;
} catch (error) {
  console.error(`check:python-team: ${(error as Error).message}`);
  process.exitCode = 2;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
