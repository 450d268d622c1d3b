/** @file Runs the command line as a user does, in a new folder, on the scripted relay recipe. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { baseFiles } from "../fixtures/relay/policy.ts";

const ROOT = resolve(import.meta.dirname, "../..");
export const RELAY = join(ROOT, "dist/test/fixtures/relay");
const COMMAND = [join(ROOT, "dist/cli/mgrpo.js")];

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A new folder with nothing but the scripted agents' base files. */
export function projectFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-cli-"));
  for (const agent of ["main", "searcher"]) {
    mkdirSync(join(folder, "models", agent), { recursive: true });
    for (const [name, bytes] of baseFiles(agent)) writeFileSync(join(folder, "models", agent, name), bytes);
  }
  return folder;
}

/** `projectFolder` for a test file: the folder is removed after the file's tests. */
export function projectOfFile(): string {
  const folder = projectFolder();
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Like `projectOfFile`; the folder is also the working directory of this process while the tests run. */
export function chdirToProject(): string {
  const folder = projectOfFile();
  const home = process.cwd();
  beforeAll(() => process.chdir(folder));
  afterAll(() => process.chdir(home));
  return folder;
}

/** Options that give the relay team the models of a `projectFolder`. */
export const RELAY_MODELS = ["main", "searcher"].flatMap((agent) => ["--set", `agents.${agent}.model=models/${agent}`]);

/** The same, and the evaluation suites. */
export const relaySettings = (...suites: object[]): string[] => [
  ...RELAY_MODELS,
  ...["--set", `evaluation.suites=${JSON.stringify(suites)}`],
];

/** Arguments that train the relay team with two evaluation suites. */
export function trainRelay(run: string, ...more: string[]): string[] {
  const settings = relaySettings({ name: "sampled" }, { name: "greedy", temperature: 0 });
  return ["train", RELAY, "--run", run, ...settings, ...more];
}

/** Parses JSON lines. */
export function parsedLines(stdout: string): Record<string, unknown>[] {
  return stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

export function mgrpo(cwd: string, ...args: string[]): Promise<Ended> {
  return mgrpoWith({}, cwd, ...args);
}

/** `mgrpo` with additional environment variables. */
export function mgrpoWith(more: NodeJS.ProcessEnv, cwd: string, ...args: string[]): Promise<Ended> {
  const env = { ...environment(), ...more };
  return new Promise((done) => {
    execFile(process.execPath, [...COMMAND, ...args], { cwd, env }, (error, stdout, stderr) => {
      done({ code: error ? (typeof error.code === "number" ? error.code : null) : 0, stdout, stderr });
    });
  });
}

/** Starts the command without waiting for it to end, for tests that kill it. */
export function startMgrpo(cwd: string, ...args: string[]): ChildProcess {
  return startMgrpoWith({}, cwd, ...args);
}

/** `startMgrpo` with additional environment variables. */
export function startMgrpoWith(more: NodeJS.ProcessEnv, cwd: string, ...args: string[]): ChildProcess {
  return spawn(process.execPath, [...COMMAND, ...args], {
    cwd,
    env: { ...environment(), ...more },
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** The same as `mgrpo`, for a command that trains: it gets the signal as soon as it has written its first step. */
export function signaledAtStep(signal: NodeJS.Signals, cwd: string, ...args: string[]): Promise<Ended> {
  const preload = new URL("../fixtures/signaled-at-step.mjs", import.meta.url).href;
  return mgrpoWith({ NODE_OPTIONS: `--import=${preload}`, MGRPO_TEST_SIGNAL: signal }, cwd, ...args);
}

export function readReport(cwd: string, run: string) {
  return JSON.parse(readFileSync(join(cwd, "runs", run, "report.json"), "utf8"));
}

/**
 * This process's environment, changed so that the command prints no colors, and does not exit with its parent, as it would with npm's variable
 * `npm_lifecycle_event`.
 */
function environment(): NodeJS.ProcessEnv {
  const { npm_lifecycle_event: _npm, FORCE_COLOR: _color, ...rest } = process.env;
  return { ...rest, NO_COLOR: "1" };
}
