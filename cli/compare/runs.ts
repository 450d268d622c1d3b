/**
 * @file Trains the runs of a comparison, `--jobs` at a time, each as an ordinary local run in its own process. A finished run is kept, an
 * interrupted one is resumed, and one with other settings is refused.
 *
 *     each job   waits for: its run's process to exit      then takes the next run, even if this one failed; once the package has
 *                                                          been rebuilt, each remaining run fails at once
 *     Ctrl-C     is forwarded: every run drains (on Windows it is killed) and can be resumed; no new run starts
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { stripVTControlCharacters } from "node:util";
import * as z from "zod";
import type { RunConfig } from "../../core/contracts/config.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { differences } from "../../core/training/differences.ts";
import { builtRelease } from "../../gpu-workers/release.ts";
import { HeldOutScores } from "../held-out-scores.ts";
import { isHubModel, StartedModels } from "../local/hub-models.ts";
import { findRun, parseDerived, readConfig, readStatus, readText, runFolder } from "../local/run-folder.ts";
import { nodeArguments } from "../local/workers.ts";
import { RunReport } from "../run-report.ts";
import type { CompareOptions } from "./plan.ts";
import type { ComparisonDisplay } from "./progress.ts";
import { provenanceDifferences, readOrigin, writeOrigin } from "./provenance.ts";
import { keepRecord, mismatchError, readRecord, type TraceableRun, type TrainedRun } from "./records.ts";

/**
 * Throws if the run's folder has another config. Unless `mixed`, also throws if its recorded provenance differs: commit, release, recipe,
 * questions, base models, or the config that it began with. Does not check whether another process trains the run: the lock of its embedded
 * cloud prevents a second one.
 */
export function refuseMismatchedRun({ config, by }: TraceableRun, mixed: boolean): void {
  const folder = runFolder(config.run);
  const origin = readOrigin(folder);
  if (!origin || !existsSync(folder.config)) return;
  const found = differences(config, readConfig(folder));
  const what = `run '${config.run}' already exists`;
  if (found.length > 0) throw mismatchError(`${what} with another config`, found, `or remove ${folder.path}`);
  const mismatches = mixed ? [] : provenanceDifferences(by, origin);
  if (mismatches.length === 0) return;
  throw mismatchError(
    `${what}, but began with another commit, release, recipe, question set, config or base model`,
    mismatches,
    `remove ${folder.path}, or keep it with --mixed`,
  );
}

/** Undefined unless the run is finished. */
function readRunFolder(run: string): TrainedRun | undefined {
  const folder = runFolder(run);
  if (!existsSync(folder.report) || readStatus(folder).state !== "finished") return undefined;
  // Without a report, `resume` writes both again.
  const remedy = `remove ${folder.report}, and resume the run to recreate both`;
  return {
    report: parseDerived(RunReport, folder.report),
    heldOut: parseDerived(z.array(HeldOutScores), folder.heldOut, remedy),
  };
}

/** Trains the runs that are not finished and keeps their records. Resolves with the failures, by run; a failure does not stop the others. */
export async function trainRuns(
  planned: readonly TraceableRun[],
  results: string,
  recipe: string,
  { jobs, mixed }: Pick<CompareOptions, "jobs" | "mixed">,
  progress: ComparisonDisplay,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const keep = (one: TraceableRun) => {
    if (readRecord(results, one, mixed)) return true;
    const finished = readRunFolder(one.config.run);
    if (finished) keepRecord(results, one, finished);
    return finished !== undefined;
  };
  for (const one of planned) refuseMismatchedRun(one, mixed);
  const left = planned.filter((one) => {
    const kept = keep(one);
    if (kept) progress.kept(one.config.run);
    return !kept;
  });
  const failures = new Map<string, string>();
  const attempt = async (one: TraceableRun): Promise<string | undefined> => {
    try {
      const fault = await trainOne(one, recipe, progress, signal);
      if (fault === undefined) keep(one);
      return fault;
    } catch (error) {
      // If this were rethrown, nobody would wait for the other runs.
      return isMgrpoError(error) ? error.message : String(error);
    }
  };
  const trainNextRuns = async () => {
    for (let next = left.shift(); next && !signal.aborted; next = left.shift()) {
      const { run } = next.config;
      progress.started(run);
      const fault = await attempt(next);
      if (fault !== undefined && !signal.aborted) failures.set(run, fault);
      // Whatever it printed last, a run that Ctrl-C stopped is reported as stopped.
      progress.ended(run, fault !== undefined && signal.aborted ? "stopped" : fault);
    }
  };
  await Promise.all(Array.from({ length: jobs }, trainNextRuns));
  return failures;
}

/** The failure; undefined if the run finished. */
async function trainOne(
  { config, set, by }: TraceableRun,
  recipe: string,
  progress: ComparisonDisplay,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { run, arm, seed } = config;
  const settings = [...set, ...hubModels(config)].flatMap((setting) => ["--set", setting]);
  const fresh = ["train", recipe, "--run", run, "--arm", arm, "--seed", String(seed), ...settings];
  const folder = runFolder(run);
  const command = existsSync(folder.config) ? ["resume", run] : fresh;
  const built = builtRelease(process.env);
  if (by.release !== built)
    return `this comparison trains with release ${by.release}, but ${built} has been built since: repeat with --mixed, or with another --name`;
  writeOrigin(folder, by);
  const child = spawn(process.execPath, [...nodeArguments("cli/mgrpo"), ...command], {
    // MGRPO_PARENT: the child ends when this process does. Detached: Ctrl-C reaches it once, through this process.
    env: { ...process.env, MGRPO_PARENT: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  // Rejects if the process cannot be started.
  await once(child, "spawn");
  const stop = () => child.kill("SIGINT");
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  let lastErrors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    lastErrors = (lastErrors + text).slice(-4000);
  });
  const exited = once(child, "close");
  createInterface({ input: child.stdout }).on("line", (line) => progress.line(run, line));
  const [code, killed] = await exited;
  signal.removeEventListener("abort", stop);
  return code === 0 ? undefined : faultOf(lastErrors, code, killed);
}

/** Settings that pin each hub model to the commit that the comparison resolved: its branch may have moved. */
const hubModels = ({ agents }: RunConfig): string[] =>
  Object.entries(agents).flatMap(([name, { model }]) => (isHubModel(model) ? [`agents.${name}.model=${model}`] : []));

/**
 * Each agent's model, pinned to the commit that the first started run of `planned` recorded for the same model name and revision, whichever
 * agent uses it there. Without such a run: the model as given.
 */
export function startedModels(planned: readonly RunConfig[], { agents }: RunConfig): StartedModels {
  const started = planned.flatMap(({ run, agents: named }) => {
    const folder = findRun(run);
    if (!folder) return [];
    const { agents: recorded } = parseJson(StartedModels, readText(folder.config), folder.config);
    return Object.entries(recorded).map(([name, { model }]) => ({ name: named[name]?.model, model }));
  });
  const models = Object.entries(agents).map(([agent, { model }]) => {
    return [agent, started.find(({ name }) => name === model) ?? { model }] as const;
  });
  return { agents: Object.fromEntries(models) };
}

const ERROR_PREFIX = "mgrpo: ";

/** Why a process failed: the error that it printed; otherwise the signal that killed it, its last line, or its exit code. */
function faultOf(errors: string, code: number | null, killed: NodeJS.Signals | null): string {
  const lines = stripVTControlCharacters(errors).trim().split("\n");
  const error = lines.findLast((line) => line.startsWith(ERROR_PREFIX));
  if (error !== undefined) return error.slice(ERROR_PREFIX.length);
  return killed ? `killed by ${killed}` : lines.at(-1) || `ended with exit code ${code}`;
}
