/** @file `mgrpo resume`: continues a run that was stopped, killed or halted, from its records. Shows the summary of a finished run again. */
import { existsSync } from "node:fs";
import { MgrpoError } from "../core/errors.ts";
import { type RaisedBudget, raisesBudget } from "../core/training/run-budget.ts";
import { openRecipe } from "../recipes/registry.ts";
import { readBases } from "./local/base-models.ts";
import { otherRelease } from "./local/other-release.ts";
import { preflight } from "./local/preflight.ts";
import {
  checkRunsFolder,
  existingRun,
  parseDerived,
  readConfig,
  readStatus,
  refuseWithoutStore,
} from "./local/run-folder.ts";
import { trainLocally } from "./local/train-locally.ts";
import { readQuestions } from "./questions.ts";
import { RunReport } from "./run-report.ts";
import { MGRPO } from "./terminal/name.ts";
import { printResumed } from "./train/opening.ts";
import { printSummary } from "./train/run-summary.ts";
import { openDashboard } from "./ui/child.ts";

export interface BudgetOptions {
  readonly budgetHours?: number;
  readonly budgetUsd?: number;
  readonly budgetToolCalls?: number;
  readonly budgetToolUsd?: number;
}

export interface ResumeOptions extends BudgetOptions {
  /** Opens the dashboard in the browser. */
  readonly open?: boolean;
}

export async function resume(run: string, options: ResumeOptions): Promise<void> {
  const raised = raisedBudgetOf(options);
  const folder = existingRun(run, `to resume a run in a store, use \`${MGRPO} launch\` with its name as --run`);
  const status = readStatus(folder);
  // The report is written last. Without it, the process was killed before all results were written.
  if (status.state === "finished" && existsSync(folder.report)) {
    if (raisesBudget(raised)) {
      throw new MgrpoError("config-invalid", `run '${run}' is finished: its budget cannot be raised`);
    }
    // Without the steps, which a user removes if a line is damaged, the results are written again.
    if (existsSync(folder.steps)) return printSummary(parseDerived(RunReport, folder.report), folder);
  }
  refuseWithoutStore(folder, status);
  const config = readConfig(folder);
  const recipe = await openRecipe(config.recipe);
  const site = { workers: "here", models: "stored", begins: () => false, checkStore: checkRunsFolder } as const;
  const { findings } = await preflight(config, site);
  const other = otherRelease(status);
  if (other !== undefined) findings.note(`run '${run}' may not go on as it began: ${other}`);
  findings.reportAndThrow();
  const dashboard = await openDashboard(run, options.open);
  printResumed(config, folder, status.step, dashboard?.link);
  const report = await trainLocally({
    config,
    folder,
    bases: () => readBases(config, "train"),
    questions: () => readQuestions(recipe, config),
    caseStudies: recipe.caseStudies,
    raised,
  }).finally(() => dashboard?.close());
  if (report) printSummary(report, folder);
}

/** The budget that the options raise, for this command, launch, eval and mine. */
export function raisedBudgetOf(options: BudgetOptions): RaisedBudget {
  const { budgetHours: hours, budgetUsd: usd, budgetToolCalls: toolCalls, budgetToolUsd: toolUsd } = options;
  return { hours, usd, toolCalls, toolUsd };
}
