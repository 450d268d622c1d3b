/** @file `mgrpo show`: a run's steps; a step, group or rollout as a tree; or the run's case studies; on the terminal or as a page. */
import { relative } from "node:path";
import colors from "picocolors";
import { describeOptimizer } from "../core/contracts/server-optimizer.ts";
import { describeBills } from "../core/training/run-budget.ts";
import { openRecipe } from "../recipes/registry.ts";
import type { Tree } from "../ui/views.ts";
import { readOptimizers, readRefusals, readSpending, readWait } from "./local/follow.ts";
import { writeAtomically } from "./local/run-folder.ts";
import { loadCases } from "./show/cases.ts";
import { type Address, loadTrees, parseAddress } from "./show/load.ts";
import { notesOf } from "./show/notes.ts";
import { drawPage } from "./show/page.ts";
import { openSource, type Source } from "./show/source.ts";
import { drawText } from "./show/text.ts";
import { clean } from "./terminal/clean.ts";
import { openDisplay } from "./terminal/display.ts";

/** The address of the case studies; all other addresses are numbers. */
const CASES = "cases";

export interface ShowOptions {
  /** The page's file; `true` names one in the run's folder. */
  readonly html?: string | true;
}

export async function show(run: string, address: string | undefined, { html }: ShowOptions): Promise<void> {
  const source = await openSource(run);
  const { config } = source;
  if (address === undefined && html === undefined) return showSteps(source);
  const view = await (address === CASES ? viewCases(source) : viewTraining(source, address));
  if (html === undefined) {
    console.log(view.trees.map(drawText).join("\n\n"));
    return;
  }
  const file = html === true ? `${source.folder}/show-${view.name}.html` : html;
  const subtitle = `${config.arm}, seed ${config.seed}. ${view.subtitle}`;
  writeAtomically(file, await drawPage(`${config.run}, ${view.title}`, subtitle, view.trees));
  console.log(relative(process.cwd(), file));
}

interface View {
  /** Part of the page's file name. */
  readonly name: string;
  readonly title: string;
  readonly subtitle: string;
  readonly trees: readonly Tree[];
}

async function viewTraining({ config, step, read }: Source, address: string | undefined): Promise<View> {
  const noteOf = await notesOf(config.recipe);
  const wanted = address === undefined ? { step: Math.max(0, step - 1) } : parseAddress(address);
  return {
    name: Object.values(wanted).join("-"),
    title: titleOf(wanted),
    subtitle: "Advantages and weights are those that the trainer used.",
    trees: await read((store) => loadTrees(store, config, wanted, noteOf)),
  };
}

async function viewCases({ config, read }: Source): Promise<View> {
  const recipe = await openRecipe(config.recipe);
  return {
    name: CASES,
    title: "case studies",
    subtitle: "Held-out questions before and after training, improved ones first.",
    trees: await read((store) => loadCases(store, config, recipe)),
  };
}

function titleOf({ step, group, rollout }: Address): string {
  return [
    `step ${step}`,
    group === undefined ? "" : `group ${group}`,
    rollout === undefined ? "" : `rollout ${rollout}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** The same table as `train` shows: each step, followed by the evaluations of its team; then what the run waits for, and its cost. */
async function showSteps({ config, state, step, reason, evaluations, summaries, read }: Source): Promise<void> {
  const display = openDisplay(config);
  const showEvaluations = (team: number) => {
    for (const evaluation of evaluations)
      if (evaluation.team === team) display.event({ kind: "evaluation", evaluation });
  };
  showEvaluations(0);
  for (const summary of await summaries()) {
    display.event({ kind: "step", summary });
    showEvaluations(summary.step + 1);
  }
  display.close();
  const { spent, wait, refusals, optimizers } = await read(async (store) => ({
    spent: await readSpending(store, config),
    wait: await readWait(store, config),
    refusals: await readRefusals(store, config.run),
    optimizers: await readOptimizers(store, config),
  }));
  if (!process.stdout.isTTY) {
    if (wait !== undefined) console.log(JSON.stringify({ kind: "waiting", step, for: wait }));
    for (const found of optimizers) console.log(JSON.stringify({ kind: "optimizer", ...found }));
    for (const refusal of refusals) console.log(JSON.stringify({ kind: "refused", ...refusal }));
    return console.log(JSON.stringify({ kind: "spent", ...spent }));
  }
  console.log(`\n  ${config.run}: ${state} at step ${step} of ${config.steps} ${clean(reason)}`);
  if (wait !== undefined) console.log(`  ${clean(wait)}`);
  for (const { agent, optimizer } of optimizers) console.log(`  ${agent}: ${clean(describeOptimizer(optimizer))}`);
  for (const { fleet, reason: why } of refusals)
    console.log(colors.yellow(`  instances of fleet ${fleet} cannot work on it: ${clean(why)}`));
  console.log(
    colors.dim(`  spent: ${describeBills(spent)}${spent.usd > 0 ? `; $${spent.usd.toFixed(2)} in all` : ""}`),
  );
}
