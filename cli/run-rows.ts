/** @file The runs of this folder and of the store that the environment names, one row each. */
import type { RunConfig } from "../core/contracts/config.ts";
import { isMgrpoError, type MgrpoError } from "../core/errors.ts";
import { heldOutScore } from "../core/monitoring/team-evaluation.ts";
import type { Store } from "../core/ports.ts";
import { allRuns } from "../core/training/clock-list.ts";
import { readEvaluations } from "./local/follow.ts";
import { type RunStatus, readConfig, readStatus, runFolder, runNames } from "./local/run-folder.ts";
import { readStored, withNamedStore } from "./show/source.ts";
import { namesStore } from "./store-names.ts";

export type Row = Pick<
  RunStatus,
  "run" | "recipe" | "arm" | "seed" | "steps" | "step" | "state" | "reason" | "heldOut" | "evaluations"
> & {
  /** Base model by agent. */
  readonly models: Readonly<Record<string, string>>;
  /** Absent for runs that were not trained in this folder. */
  readonly seconds?: number;
};

/** A run whose records cannot be read. */
export interface Damaged {
  readonly run: string;
  readonly state: "damaged";
  readonly reason: string;
}

/** If the store does not answer, the rows of this folder come with the failure. */
export async function readRows(): Promise<{ rows: (Row | Damaged)[]; failure?: MgrpoError }> {
  const stored = await readStoredRows();
  return { ...stored, rows: [...runNames().map(localRow), ...stored.rows] };
}

async function readStoredRows(): Promise<{ rows: (Row | Damaged)[]; failure?: MgrpoError }> {
  if (!namesStore()) return { rows: [] };
  try {
    return { rows: await withNamedStore(storedRows) };
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    return { rows: [], failure: error };
  }
}

function localRow(name: string): Row | Damaged {
  try {
    const { environment: _secret, ...status } = readStatus(runFolder(name));
    return { ...status, models: modelsOf(readConfig(runFolder(name))) };
  } catch (error) {
    return damaged(name, error);
  }
}

export const modelsOf = ({ agents }: RunConfig): Record<string, string> =>
  Object.fromEntries(Object.entries(agents).map(([name, { model }]) => [name, model]));

/** One damaged run must not hide the others. */
function damaged(run: string, error: unknown): Damaged {
  if (!isMgrpoError(error, "record-damaged", "config-invalid", "not-found")) throw error;
  return { run, state: "damaged", reason: error.message };
}

async function storedRows(store: Store): Promise<(Row | Damaged)[]> {
  const rows: (Row | Damaged)[] = [];
  for (const run of await allRuns(store.table))
    rows.push(await storedRow(store, run).catch((error: unknown) => damaged(run, error)));
  return rows;
}

async function storedRow(store: Store, run: string): Promise<Row> {
  const { config, record } = await readStored(store, run);
  const evaluations = await readEvaluations(store, config);
  const share = (team: number) => {
    const score = heldOutScore(evaluations, team);
    return score && score.n > 0 ? score.correct / score.n : null;
  };
  const { recipe, arm, seed } = config;
  const { status: state, step, reason } = record;
  const steps = state === "finished" ? step : config.steps;
  return {
    run: config.run,
    recipe,
    arm,
    seed,
    models: modelsOf(config),
    steps,
    step,
    state,
    reason,
    heldOut: { before: share(0), after: share(steps) },
    evaluations,
  };
}
