/** @file `mgrpo show`: a run's steps; a step, group or rollout as a tree; or the run's case studies; on the terminal or as a page. */
import { relative } from "node:path";
import colors from "picocolors";
import { describeOptimizer } from "../core/contracts/server-optimizer.ts";
import { MgrpoError } from "../core/errors.ts";
import { describeSpending } from "../core/training/run-budget.ts";
import { openRecipe } from "../recipes/registry.ts";
import type { Tree } from "../ui/views.ts";
import { openDisplay } from "./local/display.ts";
import { readWait } from "./local/follow.ts";
import { readOptimizers, readRefusals, readSpending } from "./local/read-records.ts";
import { writeNamedFile } from "./local/written-files.ts";
import { notesOf } from "./notes.ts";
import { loadCases } from "./show/cases.ts";
import { type Address, isAddress, loadTrees, parseAddress } from "./show/load.ts";
import { openSource, type Source } from "./show/source.ts";
import { drawText } from "./show/text.ts";
import { counted } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { exportPage } from "./ui/export.ts";

/** The address of the case studies; all other addresses are numbers. */
const CASES = "cases";

export interface ShowOptions {
  /** The page's file; `true`: one in the run's folder. */
  readonly html?: string | true;
}

export async function show(run: string, address: string | undefined, { html }: ShowOptions): Promise<void> {
  if (typeof html === "string") refuseAddress(html);
  const source = await openSource(run);
  if (address === undefined && html === undefined) return showSteps(source);
  const wanted = wantedOf(source, address);
  if (html === undefined) {
    console.log((await loadWanted(source, wanted)).map(drawText).join("\n\n"));
    return;
  }
  const name = wanted === CASES ? CASES : Object.values(wanted).join("-");
  const file = html === true ? `${source.folder}/show-${name}.html` : html;
  writeNamedFile("--html", file, await exportPage(source, wanted));
  console.log(relative(process.cwd(), file));
}

/** An address after --html would name the file, which would show another step. */
function refuseAddress(file: string): void {
  if (file !== CASES && !isAddress(file)) return;
  throw new MgrpoError(
    "config-invalid",
    `--html ${file}: takes a file, and ${file} is an address: write it before --html, or write ./${file} for a file of that name`,
  );
}

/** Without an address: the newest closed step, or step 0 before one has closed. */
function wantedOf({ step }: Source, address: string | undefined): Address | typeof CASES {
  if (address === CASES) return CASES;
  return address === undefined ? { step: Math.max(0, step - 1) } : parseAddress(address);
}

async function loadWanted({ config, read }: Source, wanted: Address | typeof CASES): Promise<readonly Tree[]> {
  if (wanted === CASES) {
    const recipe = await openRecipe(config.recipe);
    return read((store) => loadCases(store, config, recipe));
  }
  const noteOf = await notesOf(config.recipe);
  return read((store) => loadTrees(store, config, wanted, noteOf));
}

/**
 * The same table as `train` shows: each step, followed by the evaluations of its team; then the run's state, what it waits for, the
 * Tinker servers' own optimizers, the fleets that do not serve it, and its cost. The scores of a step may have expired; evaluations do not expire.
 */
export async function showSteps({ config, state, step, reason, evaluations, summaries, read }: Source): Promise<void> {
  const display = openDisplay(config);
  let shown = -1;
  const showEvaluations = (upTo: number) => {
    for (const evaluation of evaluations)
      if (evaluation.team > shown && evaluation.team <= upTo) display.event({ kind: "evaluation", evaluation });
    shown = upTo;
  };
  const kept = await summaries();
  const expired = kept[0]?.step ?? step;
  showEvaluations(expired);
  if (expired > 0) display.print(`the scores of the first ${counted(expired, "step")} have expired`);
  for (const summary of kept) {
    display.event({ kind: "step", summary });
    showEvaluations(summary.step + 1);
  }
  showEvaluations(step);
  display.close();
  const { spent, wait, refusals, optimizers } = await read(async (store) => ({
    spent: await readSpending(store, config),
    wait: await readWait(store, config),
    refusals: await readRefusals(store, config.run),
    optimizers: await readOptimizers(store, config),
  }));
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "state", state, step, steps: config.steps, reason }));
    if (wait !== undefined) console.log(JSON.stringify({ kind: "waiting", step, for: wait }));
    for (const found of optimizers) console.log(JSON.stringify({ kind: "optimizer", ...found }));
    for (const refusal of refusals) console.log(JSON.stringify({ kind: "refused", ...refusal }));
    return console.log(JSON.stringify({ kind: "spent", ...spent }));
  }
  console.log(
    `\n  ${config.run}: ${state} at step ${step} of ${config.steps}${reason && `: ${stripControlCharacters(reason)}`}`,
  );
  if (wait !== undefined) console.log(`  ${stripControlCharacters(wait)}`);
  for (const { agent, optimizer } of optimizers)
    console.log(`  ${agent}: ${stripControlCharacters(describeOptimizer(optimizer))}`);
  for (const { fleet, reason: why } of refusals)
    console.log(colors.yellow(`  instances of fleet ${fleet} cannot work on it: ${stripControlCharacters(why)}`));
  console.log(
    colors.dim(`  spent: ${describeSpending(spent)}${spent.usd > 0 ? `; $${spent.usd.toFixed(2)} in all` : ""}`),
  );
}
