/** @file `mgrpo runs`: the runs of this folder, and of the store that the environment names, with their state and scores. */
import colors from "picocolors";
import { tableKeys } from "../core/contracts/keys.ts";
import { isMgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import { readEvaluations } from "./local/follow.ts";
import { type RunStatus, readStatus, runFolder, runNames } from "./local/run-folder.ts";
import { heldOutScore, openBook } from "./run-report.ts";
import { readStored, withNamedStore } from "./show/source.ts";
import { namesStore } from "./store-names.ts";
import { accuracy, duration, percent } from "./terminal/columns.ts";
import { MGRPO } from "./terminal/name.ts";

type Row = Pick<
  RunStatus,
  "run" | "recipe" | "arm" | "seed" | "steps" | "step" | "reason" | "heldOut" | "evaluations"
> & {
  readonly state: string;
  /** Only of runs that were trained from this folder. */
  readonly seconds?: number;
};

/** A run in the store whose records cannot be read. */
interface Damaged {
  readonly run: string;
  readonly state: "damaged";
  readonly reason: string;
}

export async function listRuns(): Promise<void> {
  const local = runNames().map(localRow);
  const rows: (Row | Damaged)[] = namesStore() ? [...local, ...(await withNamedStore(storedRows))] : local;
  if (!process.stdout.isTTY) {
    for (const row of rows) console.log(JSON.stringify(row));
    return;
  }
  if (rows.length === 0) {
    console.log(`no runs here yet: start one with \`${MGRPO} train atlas\``);
    return;
  }
  const cells = rows.map((run) => [
    run.run,
    run.state,
    ...("step" in run ? progress(run) : ["-", "-", "-"]),
    run.reason,
  ]);
  printTable(["run", "state", "step", "held-out", "time", ""], cells);
}

function localRow(name: string): Row | Damaged {
  try {
    const { environment: _secret, ...status } = readStatus(runFolder(name));
    return status;
  } catch (error) {
    return damaged(name, error);
  }
}

/** One run's damage must not hide the others. */
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
  const { pk, sk } = tableKeys.listed("");
  const rows: (Row | Damaged)[] = [];
  for (const { run } of await store.table.query(pk, sk))
    rows.push(await storedRow(store, String(run)).catch((error: unknown) => damaged(String(run), error)));
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
    ...{ run: config.run, recipe, arm, seed, steps, step, state, reason },
    heldOut: { before: share(0), after: share(steps) },
    evaluations,
  };
}

/** Before → after, that with its interval. */
function beforeAndAfter({ heldOut: { before, after }, evaluations, steps }: Row): string {
  const share = (value: number | null) => (value === null ? "-" : percent(value));
  const { sampled } = openBook(evaluations, steps);
  return `${share(before)} → ${sampled ? accuracy(sampled) : share(after)}`;
}

/** Columns as wide as their widest cell; the state tells its colour. */
function printTable(titles: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = titles.map((title, i) => Math.max(title.length, ...rows.map((cells) => cells[i]?.length ?? 0)));
  const line = (cells: readonly string[]) => cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ");
  console.log(colors.dim(line(titles)));
  for (const cells of rows) console.log(tone(cells[1])(line(cells)));
}

function tone(state: string | undefined): (text: string) => string {
  if (state === "running") return colors.cyan;
  if (state === "finished") return colors.green;
  return state === "halted" || state === "damaged" ? colors.red : colors.yellow;
}
