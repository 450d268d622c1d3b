/** @file `mgrpo runs`: lists the runs in this folder and in the store that the environment names: states, scores, costs, and what each waits for. */
import colors from "picocolors";
import stringWidth from "string-width";
import { MgrpoError } from "../core/errors.ts";
import { openBookEvaluations } from "../core/monitoring/team-evaluation.ts";
import type { DamagedRun } from "../ui/views.ts";
import { type RunsTableRow, readRows } from "./run-rows.ts";
import { accuracy, duration, percent } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { MGRPO } from "./terminal/name.ts";
import { hanging, padColumns, rowWidth } from "./terminal/rows.ts";

/** If the store does not answer, the runs of this folder are listed before the failure. */
export async function listRuns(): Promise<void> {
  const { rows, failure } = await readRows();
  print(rows, failure === undefined);
  if (failure === undefined) return;
  const { code, message, retryable } = failure;
  const scope = rows.length > 0 ? "only the runs of this folder are listed: " : "";
  throw new MgrpoError(code, `${scope}${message}`, { cause: failure, retryable });
}

function print(rows: readonly (RunsTableRow | DamagedRun)[], isComplete: boolean): void {
  if (!process.stdout.isTTY) {
    for (const row of rows) console.log(JSON.stringify(row));
    return;
  }
  if (rows.length > 0) for (const line of tableLines(rows)) console.log(line);
  else if (isComplete) console.log(`no runs here yet: start one with \`${MGRPO} train atlas\``);
}

const progress = (run: RunsTableRow) => [
  `${run.step}/${run.steps}`,
  beforeAndAfter(run),
  run.seconds === undefined ? "-" : duration(run.seconds),
  run.usd ? `$${run.usd.toFixed(2)}` : "-",
];

/** Why the run was halted or cannot be read; otherwise its stall; otherwise what it waits for. */
const about = (row: RunsTableRow | DamagedRun): string =>
  stripControlCharacters(row.state === "damaged" ? row.reason : row.reason || (row.stall ?? row.wait ?? ""));

/** Held-out accuracy before and after training, the latter with its interval. */
function beforeAndAfter({ heldOut: { before, after }, evaluations, steps }: RunsTableRow): string {
  const share = (value: number | null) => (value === null ? "-" : percent(value));
  const { sampled } = openBookEvaluations(evaluations, steps);
  return `${share(before)} → ${sampled ? accuracy(sampled) : share(after)}`;
}

const TITLES = ["run", "state", "step", "held-out", "time", "cost", ""];

/** A table if the terminal is wide enough; otherwise several lines per run. The state determines the color. */
function tableLines(rows: readonly (RunsTableRow | DamagedRun)[]): string[] {
  // A folder that someone else made may have any name.
  const table = rows.map((row) => [
    stripControlCharacters(row.run),
    row.state,
    ...("step" in row ? progress(row) : ["-", "-", "-", "-"]),
    about(row),
  ]);
  const widths = TITLES.map((title, i) => Math.max(title.length, ...table.map((cells) => stringWidth(cells[i] ?? ""))));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => padColumns(cell, widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  const lines = table.map(line);
  if (lines.every((text) => stringWidth(text) <= rowWidth()))
    return [colors.dim(line(TITLES)), ...lines.map((text, i) => colorOf(table[i]?.[1])(text))];
  return table.flatMap(([run = "", state = "", step = "", heldOut = "", time = "", cost = "", reason = ""]) => [
    colorOf(state)(`${run}  ${state}`),
    ...(step === "-" ? [] : [`  ${[step, heldOut, time, cost].filter((cell) => cell !== "-").join("  ")}`]),
    ...(reason === "" ? [] : hanging("  ", reason)),
  ]);
}

function colorOf(state: string | undefined): (text: string) => string {
  if (state === "running") return colors.cyan;
  if (state === "finished") return colors.green;
  return state === "halted" || state === "damaged" ? colors.red : colors.yellow;
}
