/** @file `mgrpo track`: sends the metrics of a run, in this folder or in the store that the environment names, to its trackers. */
import { existsSync } from "node:fs";
import { openTrackers } from "../adapters/trackers/open.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { TrackerName } from "../core/contracts/tracking.ts";
import { MgrpoError } from "../core/errors.ts";
import { MetricsFile } from "./local/metrics-file.ts";
import { readRun, readScoredAt } from "./local/read-records.ts";
import { type RunFolder, runFolder } from "./local/run-folder.ts";
import { readTracedRollouts } from "./local/traced-rollouts.ts";
import { lockTrackers, removeStalePositions, Tracking } from "./local/tracking.ts";
import { notesOf } from "./notes.ts";
import { openSource, type Source } from "./show/source.ts";
import { counted } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { makeFolder } from "./writable-folder.ts";

export interface TrackOptions {
  /** Instead of those that the run's config names. */
  readonly to?: readonly TrackerName[];
}

export async function track(run: string, { to }: TrackOptions): Promise<void> {
  const source = await openSource(run);
  const config = { ...source.config, track: [...new Set(to ?? source.config.track)] };
  if (config.track.length === 0) {
    throw new MgrpoError("config-invalid", `run '${run}' has no trackers: name some with --to tensorboard,mlflow,otlp`);
  }
  const folder = runFolder(run);
  makeFolder(folder.path);
  const unlock = await lockTrackers(folder, "leave the metrics to it");
  try {
    const lines = await sendAll(source, config, folder);
    console.log(`metrics in ${config.track.join(", ")}: ${counted(lines, "line")}`);
  } finally {
    await unlock();
  }
}

/** Returns the number of lines that the trackers have. */
async function sendAll(source: Source, config: RunConfig, folder: RunFolder): Promise<number> {
  const { startedAt } = await source.read((store) => readRun(store, config.run));
  removeStalePositions(folder);
  const metrics = await readMetrics(source, folder, startedAt);
  const noteOf = await notesOf(config.recipe);
  const trackers = openTrackers(
    config,
    folder.path,
    startedAt,
    (step) => source.read((store) => readTracedRollouts(store, config, step, noteOf)),
    process.env,
    (line) => console.error(`warning: ${stripControlCharacters(line)}`),
  );
  const failures: string[] = [];
  const warn = (reason: string) => failures.push(reason);
  const tracking = new Tracking({ trackers, lines: metrics.lines, positions: folder.trackers, warn });
  // No time limit on the whole: the user waits for it, and each request has a limit of its own.
  const incomplete = await tracking.finish(endOf(source.state), new AbortController().signal);
  if (incomplete.length > 0) throw new MgrpoError("tracker-unavailable", failures.join("; "), { retryable: true });
  return metrics.lines.length;
}

/**
 * A step that the file lacks gets the time at which its last rollout was scored, if that is recorded. An evaluation that it lacks gets the
 * current time, since the time of an evaluation is not recorded.
 */
async function readMetrics(source: Source, folder: RunFolder, startedAt: number): Promise<MetricsFile> {
  const summaries = await source.summaries();
  // Read after the summaries: a process that trains the run without trackers holds no lock, and may be adding lines of the same steps.
  const metrics = new MetricsFile(folder.metrics);
  refuseEarlierRun(metrics, folder, source.config.run, startedAt);
  const missing = summaries.filter(({ step }) => !metrics.hasStep(step));
  if (missing.length > 0)
    await source.read(async (store) => {
      for (const summary of missing)
        metrics.addStep(summary, await readScoredAt(store, source.config.run, summary.step));
    });
  for (const evaluation of source.evaluations) metrics.addEvaluation(evaluation);
  return metrics;
}

/** The folder of a run in a store may hold the metrics of a deleted run of the same name, whose lines would be taken for this run's. */
function refuseEarlierRun(
  { lines }: MetricsFile,
  { config, metrics }: RunFolder,
  run: string,
  startedAt: number,
): void {
  const isEarlier = lines.some(({ source, time }) => source === "step" && time < startedAt);
  if (existsSync(config) || !isEarlier) return;
  throw new MgrpoError(
    "config-invalid",
    `${metrics} has steps from before run '${run}' started, so they belong to an earlier run of that name: remove this file, and repeat the command to recreate it`,
  );
}

function endOf(state: string): "finished" | "failed" | undefined {
  if (state === "finished") return "finished";
  return state === "halted" ? "failed" : undefined;
}
