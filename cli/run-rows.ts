/** @file The runs of this folder and of the store that the environment names, one row each. */
import type { RunConfig } from "../core/contracts/config.ts";
import { isMgrpoError, type MgrpoError } from "../core/errors.ts";
import type { StepSummary } from "../core/monitoring/step-summary.ts";
import { heldOutShare } from "../core/monitoring/team-evaluation.ts";
import type { Store } from "../core/ports.ts";
import { allRuns } from "../core/training/run-list.ts";
import type { DamagedRun } from "../ui/views.ts";
import { modelsOf } from "./local/base-models.ts";
import { type LiveRun, readLive } from "./local/live.ts";
import { withRunStore } from "./local/open-store.ts";
import { readEvaluations, readSummary } from "./local/read-records.ts";
import { readNewestStep } from "./local/recorded-steps.ts";
import { type RunFolder, type RunStatus, readConfig, readStatus, runFolder, runNames } from "./local/run-folder.ts";
import { readStored, withNamedStore } from "./show/source.ts";
import { namesStore } from "./store-names.ts";

export type RunsTableRow = Pick<
  RunStatus,
  "run" | "recipe" | "arm" | "seed" | "steps" | "step" | "state" | "reason" | "heldOut" | "evaluations"
> & {
  /** Base model by agent. */
  readonly models: Readonly<Record<string, string>>;
  /** Total over all sessions. Absent for runs that were not trained in this folder. */
  readonly seconds?: number;
  /** Mean reward of the newest closed step by agent; empty before the first, and if its scores have expired. */
  readonly reward: StepSummary["reward"];
} & Omit<LiveRun, "usd"> & {
    /** What it has cost so far; null: unknown. */
    readonly usd: number | null;
  };

/** If the store cannot be read, the rows of this folder come with the failure. */
export async function readRows(): Promise<{ rows: (RunsTableRow | DamagedRun)[]; failure?: MgrpoError }> {
  const [stored, local] = await Promise.all([readStoredRows(), Promise.all(runNames().map(localRow))]);
  return { ...stored, rows: [...local, ...stored.rows] };
}

async function readStoredRows(): Promise<{ rows: (RunsTableRow | DamagedRun)[]; failure?: MgrpoError }> {
  try {
    if (!namesStore()) return { rows: [] };
    return { rows: await withNamedStore(storedRows) };
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    return { rows: [], failure: error };
  }
}

async function localRow(name: string): Promise<RunsTableRow | DamagedRun> {
  try {
    const folder = runFolder(name);
    const { environment: _secret, ...status } = readStatus(folder);
    const config = readConfig(folder);
    const { seconds = null, reward = {} } = readNewestStep(folder) ?? {};
    const known = { ...status, ...(await localLive(folder, status, config, seconds)) };
    return { ...known, models: modelsOf(config), reward };
  } catch (error) {
    return damaged(name, error);
  }
}

/** Reads the records only while the run is running: otherwise, an embedded cloud would have to be started for them. */
async function localLive(
  folder: RunFolder,
  { state, usd }: Pick<RunStatus, "state" | "usd">,
  config: RunConfig,
  stepSeconds: number | null,
): Promise<Pick<RunsTableRow, keyof LiveRun>> {
  const unread = { usd, heartbeatSeconds: null, wait: null, stall: null };
  if (state !== "running") return unread;
  try {
    return await withRunStore(folder, (store) => readLive(store, config, stepSeconds));
  } catch (error) {
    if (!isMgrpoError(error, "store-unreachable", "not-found")) throw error;
    // The process is starting or ending.
    return { ...unread, wait: "its process does not answer" };
  }
}

/** One damaged run must not hide the others. */
function damaged(run: string, error: unknown): DamagedRun {
  if (!isMgrpoError(error, "record-damaged", "config-invalid", "not-found")) throw error;
  return { run, state: "damaged", reason: error.message };
}

async function storedRows(store: Store): Promise<(RunsTableRow | DamagedRun)[]> {
  const rows: (RunsTableRow | DamagedRun)[] = [];
  for (const run of await allRuns(store.table))
    rows.push(await storedRow(store, run).catch((error: unknown) => damaged(run, error)));
  return rows;
}

async function storedRow(store: Store, run: string): Promise<RunsTableRow> {
  const { config, record } = await readStored(store, run);
  const evaluations = await readEvaluations(store, config);
  const { recipe, arm, seed } = config;
  const { status: state, step, reason } = record;
  const steps = state === "finished" ? step : config.steps;
  const newest = step === 0 ? undefined : await readSummary(store, config, step - 1, null);
  return {
    ...(await readLive(store, config, null)),
    run: config.run,
    recipe,
    arm,
    seed,
    models: modelsOf(config),
    steps,
    step,
    state,
    reason,
    heldOut: { before: heldOutShare(evaluations, 0), after: heldOutShare(evaluations, steps) },
    evaluations,
    reward: newest?.reward ?? {},
  };
}
