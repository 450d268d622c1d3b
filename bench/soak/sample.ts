/** @file One sample of a soak test: what the run's processes hold, what the run has left on disk and in its store, and how fast it is. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { median, sum } from "../../core/statistics.ts";
import { type ProcessUse, processTree } from "../process-tree.ts";
import { countRecords } from "./records.ts";

export interface SoakSample {
  /** Since the run's cloud was first seen running. */
  readonly minutes: number;
  readonly steps: number;
  /** Median over the steps since the previous sample whose duration is known; undefined if there are none. */
  readonly stepSeconds: number | undefined;
  /** How long `mgrpo show <run>` takes, which prints a row for every step. */
  readonly showSeconds: number;
  /** How long `mgrpo show <run> <step>` takes for the newest closed step; undefined before one has closed. */
  readonly showStepSeconds: number | undefined;
  /** Files in the run's folder. */
  readonly files: number;
  /** By kind: see records.ts. */
  readonly records: Readonly<Record<string, number>>;
  /** By process: the command, and each agent's worker. Evaluation workers, which come and go, are left out. */
  readonly bytes: Readonly<Record<string, number>>;
  readonly openFiles: Readonly<Record<string, number>>;
}

const StepLine = z.object({ seconds: z.number().nullable() });

export interface SoakedRun {
  readonly pid: number;
  /** The folder in which it was started. */
  readonly project: string;
  readonly run: string;
  /** The built command. */
  readonly mgrpo: string;
  /** The environment variables that give access to its cloud. */
  readonly access: Readonly<Record<string, string>>;
  /** When its cloud was first seen running, on the clock of `performance.now`. */
  readonly firstSeen: number;
}

/** @param before number of steps in the previous sample. */
export async function takeSample(soaked: SoakedRun, before: number): Promise<SoakSample> {
  const { pid, project, run, access, firstSeen } = soaked;
  const folder = join(project, "runs", run);
  const uses = processTree(pid).filter((use) => !isEvaluator(use));
  const names = [...new Set(uses.map(nameOf))];
  const byProcess = (key: "bytes" | "openFiles") =>
    Object.fromEntries(
      names.map((name) => [name, sum(uses.filter((use) => nameOf(use) === name).map((use) => use[key]))]),
    );
  const steps = await readStepSeconds(folder);
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const recent = steps.slice(before).filter((seconds) => seconds !== null);
  const minutes = (performance.now() - firstSeen) / 60_000;
  return {
    minutes,
    steps: steps.length,
    stepSeconds: recent.length > 0 ? median(recent) : undefined,
    showSeconds: await timeShow(soaked),
    showStepSeconds: steps.length > 0 ? await timeShow(soaked, steps.length - 1) : undefined,
    files: files.length,
    records: await countRecords(access, run),
    bytes: byProcess("bytes"),
    openFiles: byProcess("openFiles"),
  };
}

/** Seconds that `mgrpo show` takes, for the run or for one of its steps. Rejects if it fails. */
export async function timeShow(
  { project, run, mgrpo }: Pick<SoakedRun, "project" | "run" | "mgrpo">,
  step?: number,
): Promise<number> {
  const address = step === undefined ? [] : [String(step)];
  const start = performance.now();
  await promisify(execFile)(process.execPath, [mgrpo, "show", run, ...address], { maxBuffer: 1e8, cwd: project });
  return (performance.now() - start) / 1000;
}

const argumentOf = (use: ProcessUse, name: string) => use.arguments[use.arguments.indexOf(name) + 1] ?? "";
const isEvaluator = (use: ProcessUse) => use.arguments.includes("--roles") && argumentOf(use, "--roles") === "eval";
const nameOf = (use: ProcessUse) => (use.arguments.includes("--agent") ? argumentOf(use, "--agent") : "command");

async function readStepSeconds(folder: string): Promise<(number | null)[]> {
  const path = join(folder, "steps.jsonl");
  // The first step creates it.
  const text = existsSync(path) ? await readFile(path, "utf8") : "";
  const lines = text.split("\n").slice(0, -1);
  return lines.map((line) => parseJson(StepLine, line, "steps.jsonl").seconds);
}
