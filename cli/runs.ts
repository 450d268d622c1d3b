/** @file `mgrpo runs`: the runs of this folder with their state and scores. */
import colors from "picocolors";
import { type RunStatus, readStatus, runFolder, runNames } from "./local/run-folder.ts";
import { openBook } from "./report.ts";
import { accuracy, duration, percent } from "./terminal/columns.ts";

export function listRuns(): void {
  const runs = runNames().map((name) => readStatus(runFolder(name)));
  if (!process.stdout.isTTY) {
    for (const { environment: _secret, ...status } of runs) console.log(JSON.stringify(status));
    return;
  }
  if (runs.length === 0) {
    console.log("no runs here yet: start one with `mgrpo train atlas`");
    return;
  }
  const rows = runs.map((run) => [
    run.run,
    run.state,
    `${run.step}/${run.steps}`,
    heldOut(run),
    duration(run.seconds),
    run.reason,
  ]);
  printTable(["run", "state", "step", "held-out", "time", ""], rows);
}

/** Before → after, that with its interval. */
function heldOut({ heldOut: { before, after }, evaluations, steps }: RunStatus): string {
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
  return state === "halted" ? colors.red : colors.yellow;
}
