/**
 * @file A local run's folder: the paths in it, its config, and `status.json`, a summary of the run that is read without opening its store.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import * as z from "zod";
import { Arm, RunConfig } from "../../core/contracts/config.ts";
import { RunName } from "../../core/contracts/names.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { StoreWrites } from "../../core/contracts/store-writes.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { MGRPO } from "../terminal/name.ts";
import { didYouMean } from "../terminal/nearest.ts";
import { faultOfWriting, makeFolder } from "../writable-folder.ts";
import { isOtherProcess } from "./process-identity.ts";
import { writeAtomically } from "./written-files.ts";

const RUNS = "runs";

export interface RunFolder {
  readonly path: string;
  readonly config: string;
  readonly status: string;
  readonly steps: string;
  readonly metrics: string;
  /** How much of the metrics each tracker has. */
  readonly trackers: string;
  /** Locked by the process that sends metrics to trackers. */
  readonly trackersLock: string;
  readonly report: string;
  readonly heldOut: string;
  readonly curve: string;
  /** What a comparison trained it with (cli/compare/provenance.ts). */
  readonly origin: string;
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
  /** `stopped`: no process trains it, and it has not ended; `resume` continues it. */
  state: z.enum(["running", "stopped", "finished", "halted"]),
  /** Why it was halted; empty otherwise. */
  reason: z.string(),
  /** The id of the process that trains it; 0 if none does. */
  pid: z.int(),
  /** Its `startOfProcess`. Empty: only its id is known. */
  processStart: z.string().default(""),
  /** The release of the process that trained it last. Empty: not recorded. */
  release: z.string().default(""),
  /** The embedded cloud's endpoints and keys while the run is running; empty otherwise. */
  environment: z.record(z.string(), z.string()),
  /** Totals over all sessions of the run. */
  seconds: z.number(),
  scoringSeconds: z.number(),
  writes: StoreWrites,
  /** What it has cost, in US dollars; null: not known. */
  usd: z.number().nullable().default(null),
  /** Share of held-out questions answered correctly above temperature 0, before and after training. */
  heldOut: z.strictObject({ before: z.number().nullable(), after: z.number().nullable() }),
  /** Finished evaluations; empty if the file does not list them. */
  evaluations: z.array(TeamEvaluation).default([]),
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
    metrics: inside("metrics.jsonl"),
    trackers: inside("trackers.json"),
    trackersLock: inside("trackers.lock"),
    report: inside("report.json"),
    heldOut: inside("held-out.json"),
    curve: inside("curve.svg"),
    origin: inside("origin.json"),
    cloud: inside("cloud"),
    logs: inside("logs"),
    checkpoints: inside("checkpoints"),
  };
}

/** The folder of the run; undefined if there is none. */
export function findRun(name: string): RunFolder | undefined {
  const folder = runFolder(name);
  return RunName.safeParse(name).success && existsSync(folder.config) ? folder : undefined;
}

/** The folder of the run, or `not-found` with the runs that exist. `elsewhere`: what to do about a run in a store. */
export function existingRun(run: string, elsewhere?: string): RunFolder {
  const folder = findRun(run);
  if (folder) return folder;
  const known = runNames();
  const hint = known.length === 0 ? `start one with \`${MGRPO} train atlas\`` : `known: ${known.join(", ")}`;
  const hints = [hint, elsewhere].filter(Boolean).join("; ");
  throw new MgrpoError("not-found", `no run '${run}' under ${resolve(RUNS)}; ${hints}${didYouMean(run, known)}`);
}

/** Refuses the name of an existing run, and a folder that cannot be written. */
export function checkNewRun(run: string): void {
  const folder = runFolder(run);
  if (existsSync(folder.config)) throw runExists(run, folder);
  checkRunsFolder();
}

function runExists(run: string, { path }: RunFolder): MgrpoError {
  const advice = `continue it with \`${MGRPO} resume ${run}\`, or give another name with --run`;
  return new MgrpoError("config-invalid", `run '${run}' exists at ${path}: ${advice}`);
}

/** Refuses a `runs` folder that cannot be written. */
export function checkRunsFolder(): void {
  const runs = resolve(RUNS);
  const existing = existsSync(runs) ? runs : dirname(runs);
  const code = faultOfWriting(existing);
  if (code === undefined) return;
  throw new MgrpoError(
    "storage-unwritable",
    `${existing} cannot be written (${code}): run mgrpo in a folder that you can write to`,
  );
}

/** Makes the folder of a new run. A run is never overwritten, even by a process that creates it at the same time. */
export function createRunFolder(config: RunConfig): RunFolder {
  checkNewRun(config.run);
  const folder = runFolder(config.run);
  makeFolder(folder.logs);
  try {
    writeAtomically(folder.config, `${JSON.stringify(config, null, 2)}\n`, { isNew: true });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === "EEXIST" ? runExists(config.run, folder) : error;
  }
  return folder;
}

/** The file as UTF-8. Throws `not-found` if it cannot be read: it may be another user's, and any run may be removed at any time. */
export function readText(path: string): string {
  try {
    // Drops the byte order mark that some editors on Windows write.
    return new TextDecoder().decode(readFileSync(path));
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

export function unreadable(path: string, cause: unknown): MgrpoError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const remedy = code === "EISDIR" ? ": it is a folder: move it away, or name a file" : "";
  return new MgrpoError("not-found", `${path} cannot be read (${message})${remedy}`, { cause });
}

/** Refuses a folder whose name is not its run's, such as a renamed copy: its records carry the run's name, which another folder may have. */
export function readConfig({ path, config: file }: RunFolder): RunConfig {
  const config = parseJson(RunConfig, readText(file), file, "config-invalid");
  if (config.run === basename(path)) return config;
  throw new MgrpoError(
    "config-invalid",
    `${path} holds run '${config.run}', but a run's folder must have the run's name: rename it to ${config.run}, or move it to another project's runs/ under that name`,
  );
}

/** The names of the runs in this folder, in natural order. */
export function runNames(): string[] {
  return namesIn(RUNS)
    .filter((name) => existsSync(runFolder(name).config))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

function namesIn(folder: string): string[] {
  try {
    return existsSync(folder) ? readdirSync(folder) : [];
  } catch (cause) {
    throw unreadable(resolve(folder), cause);
  }
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
    processStart: "",
    release: "",
    environment: {},
    seconds: 0,
    scoringSeconds: 0,
    writes: { requests: 0, bytes: 0, units: 0 },
    usd: null,
    heldOut: { before: null, after: null },
    evaluations: [],
  };
}

/** A `running` run that no process other than this one trains is reported as stopped: its own process was killed. */
export function readStatus(folder: RunFolder): RunStatus {
  if (!existsSync(folder.status)) return newStatus(readConfig(folder));
  const status = parseDerived(RunStatus, folder.status);
  if (status.state !== "running" || isOtherProcess(status.pid, status.processStart)) return status;
  return { ...status, state: "stopped", pid: 0, processStart: "", environment: {} };
}

const RESUME = "remove this file, and resume the run to recreate it";

/** Parses a file that mgrpo writes again if it is missing. `remedy`: what to do if it is damaged. */
export const parseDerived = <S extends z.ZodType>(schema: S, path: string, remedy = RESUME): z.infer<S> =>
  parseDerivedText(schema, readText(path), path, remedy);

/** Parses the text of such a file, or one of its lines. `what`: what is parsed, for the message. */
export function parseDerivedText<S extends z.ZodType>(
  schema: S,
  text: string,
  what: string,
  remedy = RESUME,
): z.infer<S> {
  try {
    return parseJson(schema, text, what);
  } catch (error) {
    if (!isMgrpoError(error, "record-damaged")) throw error;
    throw new MgrpoError(error.code, `${error.message}: ${remedy}`);
  }
}

/** Refuses a run that has begun and whose store is gone: it would begin again, or look as if it had never begun. */
export function refuseWithoutStore({ cloud, steps }: RunFolder, { run, state, step }: RunStatus): void {
  const hasBegun = state === "finished" || state === "halted" || step > 0 || existsSync(steps);
  if (!hasBegun || existsSync(cloud)) return;
  throw new MgrpoError(
    "record-damaged",
    `the store of run '${run}' is gone (${cloud}): restore it, or train another run under a new name`,
  );
}

/** Changes whenever the status is written. Undefined: there is none yet. */
export function statusVersion({ status }: RunFolder): string | undefined {
  const stats = statSync(status, { throwIfNoEntry: false });
  return stats && `${stats.ino} ${stats.mtimeMs} ${stats.size}`;
}

/** Readable only by its owner, since it contains the embedded cloud's keys while the run is running. */
export function writeStatus(folder: RunFolder, status: RunStatus): void {
  writeAtomically(folder.status, `${JSON.stringify(status, null, 2)}\n`, { mode: 0o600 });
}
