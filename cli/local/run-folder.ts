/**
 * @file A local run's folder: where its parts lie, its name, and `status.json`, a small note that lets `runs` and `show` know a run
 * without opening its store.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as z from "zod";
import { Arm, RunConfig } from "../../core/contracts/config.ts";
import { RunName } from "../../core/contracts/names.ts";
import { didYouMean } from "../../core/contracts/nearest.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { Evaluation, StoreWrites } from "../report.ts";
import { MGRPO } from "../terminal/name.ts";

const RUNS = "runs";

export interface RunFolder {
  readonly path: string;
  readonly config: string;
  readonly status: string;
  readonly steps: string;
  readonly report: string;
  readonly heldOut: string;
  readonly curve: string;
  readonly cloud: string;
  readonly logs: string;
  readonly checkpoints: string;
}

export const RunStatus = z.strictObject({
  run: RunName,
  recipe: z.string(),
  arm: Arm,
  seed: z.int(),
  steps: z.int(),
  /** Closed steps. */
  step: z.int(),
  /** `stopped`: ended by the user, or killed; `resume` goes on. */
  state: z.enum(["running", "stopped", "finished", "halted"]),
  reason: z.string(),
  /** Process that trains it now; 0 when none does. */
  pid: z.int(),
  /** How to reach its store while it runs: the embedded cloud's endpoints and keys. */
  environment: z.record(z.string(), z.string()),
  /** Sums over all sessions of the run. */
  seconds: z.number(),
  scoringSeconds: z.number(),
  writes: StoreWrites,
  /** Held-out share right at temperature 1, before and after. */
  heldOut: z.strictObject({ before: z.number().nullable(), after: z.number().nullable() }),
  /** Every finished one, with its interval. Absent from the notes of earlier releases, which must not keep the others from being listed. */
  evaluations: z.array(Evaluation).default([]),
});
export type RunStatus = z.infer<typeof RunStatus>;

export function runFolder(run: string): RunFolder {
  const path = resolve(RUNS, run);
  const inside = (name: string) => join(path, name);
  return {
    path,
    config: inside("config.json"),
    status: inside("status.json"),
    steps: inside("steps.jsonl"),
    report: inside("report.json"),
    heldOut: inside("held-out.json"),
    curve: inside("curve.svg"),
    cloud: inside("cloud"),
    logs: inside("logs"),
    checkpoints: inside("checkpoints"),
  };
}

/** The folder of a run of that name; undefined where there is none. */
export function findRun(name: string): RunFolder | undefined {
  const folder = runFolder(name);
  return RunName.safeParse(name).success && existsSync(folder.config) ? folder : undefined;
}

/** The folder of a run that is there; a clear refusal otherwise. */
export function existingRun(run: string): RunFolder {
  const folder = findRun(run);
  if (folder) return folder;
  const known = runNames();
  const hint = known.length === 0 ? `there are no runs here yet: start one with \`${MGRPO} train\`` : known.join(", ");
  const nearest = didYouMean(run, known);
  throw new MgrpoError("not-found", `no run '${run}' under ${resolve(RUNS)}; known: ${hint}${nearest}`);
}

/** Makes the folder of a new run, or refuses: a run is never overwritten. */
export function createRunFolder(config: RunConfig): RunFolder {
  const folder = runFolder(config.run);
  if (existsSync(folder.config)) {
    throw new MgrpoError(
      "config-invalid",
      `run '${config.run}' exists at ${folder.path}: go on with \`${MGRPO} resume ${config.run}\`, or give another name with --run`,
    );
  }
  mkdirSync(folder.logs, { recursive: true });
  writeAtomically(folder.config, `${JSON.stringify(config, null, 2)}\n`);
  return folder;
}

export function readConfig(folder: RunFolder): RunConfig {
  return parseJson(RunConfig, readFileSync(folder.config), folder.config, "config-invalid");
}

/** Names of the runs here, oldest name first. */
export function runNames(): string[] {
  if (!existsSync(RUNS)) return [];
  return readdirSync(RUNS)
    .filter((name) => existsSync(runFolder(name).config))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

/** `<recipe>-<arm>-seed<seed>`, with the next free number when it is taken. */
export function freeRunName(recipe: string, arm: string, seed: number): string {
  for (let n = 1; ; n++) {
    const name = runNameOf(recipe, arm, seed, n);
    if (!existsSync(runFolder(name).path)) return name;
  }
}

/** The n-th run of that recipe, arm and seed. */
export function runNameOf(recipe: string, arm: string, seed: number, n: number): string {
  const base = `${recipe}-${arm}-seed${seed}`.slice(0, 56);
  return n === 1 ? base : `${base}-${n}`;
}

function newStatus(config: RunConfig): RunStatus {
  return {
    run: config.run,
    recipe: config.recipe,
    arm: config.arm,
    seed: config.seed,
    steps: config.steps,
    step: 0,
    state: "stopped",
    reason: "",
    pid: 0,
    environment: {},
    seconds: 0,
    scoringSeconds: 0,
    writes: { requests: 0, bytes: 0, units: 0 },
    heldOut: { before: null, after: null },
    evaluations: [],
  };
}

/** The status as it stands: a `running` one whose process is gone was killed, so it reads as stopped. */
export function readStatus(folder: RunFolder): RunStatus {
  if (!existsSync(folder.status)) return newStatus(readConfig(folder));
  const status = parseJson(RunStatus, readFileSync(folder.status), folder.status);
  if (status.state !== "running" || isAlive(status.pid)) return status;
  return { ...status, state: "stopped", pid: 0, environment: {} };
}

/** Readable by the owner only: it holds the embedded cloud's keys while the run is on. */
export function writeStatus(folder: RunFolder, status: RunStatus): void {
  writeAtomically(folder.status, `${JSON.stringify(status, null, 2)}\n`, 0o600);
}

/** All of it or nothing, also when the process is killed on the way. */
export function writeAtomically(path: string, content: string | Uint8Array, mode = 0o644): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, content, { mode });
  renameSync(temporary, path);
}

/** Another process of that number. In a container, the one that goes on has the number of the one that was killed. */
function isAlive(pid: number): boolean {
  if (pid === 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
