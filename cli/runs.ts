/** @file `mgrpo runs`: lists the runs in this folder and in the store that the environment names, with their states and scores. */
import colors from "picocolors";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { heldOutScore, openBook } from "../core/monitoring/team-evaluation.ts";
import type { Store } from "../core/ports.ts";
import { allRuns } from "../core/training/clock-list.ts";
import { readEvaluations } from "./local/follow.ts";
import { type RunStatus, readStatus, runFolder, runNames } from "./local/run-folder.ts";
import { readStored, withNamedStore } from "./show/source.ts";
import { namesStore } from "./store-names.ts";
import { clean } from "./terminal/clean.ts";
import { accuracy, duration, percent } from "./terminal/columns.ts";
import { MGRPO } from "./terminal/name.ts";
import { hanging, terminalWidth } from "./terminal/rows.ts";

type Row = Pick<
  RunStatus,
  "run" | "recipe" | "arm" | "seed" | "steps" | "step" | "reason" | "heldOut" | "evaluations"
> & {
  readonly state: string;
  /** Absent for runs that were not trained in this folder. */
  readonly seconds?: number;
};

/** A run whose records cannot be read. */
interface Damaged {
  readonly run: string;
  readonly state: "damaged";
  readonly reason: string;
}

/** If the store does not answer, the runs of this folder are listed before the failure. */
export async function listRuns(): Promise<void> {
  const local = runNames().map(localRow);
  const stored = await readStoredRows();
  print([...local, ...stored.rows], stored.failure === undefined);
  if (stored.failure === undefined) return;
  const { code, message, retryable } = stored.failure;
  const scope = local.length > 0 ? "only the runs of this folder are listed: " : "";
  throw new MgrpoError(code, `${scope}${message}`, { cause: stored.failure, retryable });
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

function print(rows: readonly (Row | Damaged)[], isComplete: boolean): void {
  if (!process.stdout.isTTY) {
    for (const row of rows) console.log(JSON.stringify(row));
    return;
  }
  if (rows.length > 0) for (const line of tableLines(rows)) console.log(line);
  else if (isComplete) console.log(`no runs here yet: start one with \`${MGRPO} train atlas\``);
}

function localRow(name: string): Row | Damaged {
  try {
    const { environment: _secret, ...status } = readStatus(runFolder(name));
    return status;
  } catch (error) {
    return damaged(name, error);
  }
}

/** One damaged run must not hide the others. */
function damaged(run: string, error: unknown): Damaged {
  if (!isMgrpoError(error, "record-damaged", "config-invalid", "not-found")) throw error;
  return { run, state: "damaged", reason: error.message };
}

const progress = (run: Row) => [
  `${run.step}/${run.steps}`,
  beforeAndAfter(run),
  run.seconds === undefined ? "-" : duration(run.seconds),
];

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
    steps,
    step,
    state,
    reason,
    heldOut: { before: share(0), after: share(steps) },
    evaluations,
  };
}

/** Held-out accuracy before and after training, the latter with its interval. */
function beforeAndAfter({ heldOut: { before, after }, evaluations, steps }: Row): string {
  const share = (value: number | null) => (value === null ? "-" : percent(value));
  const { sampled } = openBook(evaluations, steps);
  return `${share(before)} → ${sampled ? accuracy(sampled) : share(after)}`;
}

const TITLES = ["run", "state", "step", "held-out", "time", ""];

/** A table if the terminal is wide enough; otherwise several lines per run. The state determines the color. */
function tableLines(rows: readonly (Row | Damaged)[]): string[] {
  const table = rows.map((row) => [
    row.run,
    row.state,
    ...("step" in row ? progress(row) : ["-", "-", "-"]),
    clean(row.reason),
  ]);
  const widths = TITLES.map((title, i) => Math.max(title.length, ...table.map((cells) => cells[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  const lines = table.map(line);
  if (lines.every((text) => text.length <= terminalWidth()))
    return [colors.dim(line(TITLES)), ...lines.map((text, i) => tone(table[i]?.[1])(text))];
  return table.flatMap(([run = "", state = "", step = "", heldOut = "", time = "", reason = ""]) => [
    tone(state)(`${run}  ${state}`),
    ...(step === "-" ? [] : [`  ${[step, heldOut, time].filter((cell) => cell !== "-").join("  ")}`]),
    ...(reason === "" ? [] : hanging("  ", reason)),
  ]);
}

function tone(state: string | undefined): (text: string) => string {
  if (state === "running") return colors.cyan;
  if (state === "finished") return colors.green;
  return state === "halted" || state === "damaged" ? colors.red : colors.yellow;
}
