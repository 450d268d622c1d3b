/** @file `mgrpo resume`: goes on with a run from its records, wherever it was stopped, killed or halted. */

import { existsSync, readFileSync } from "node:fs";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { type Extension, extendsAny } from "../core/training/budget.ts";
import { openRecipe } from "../recipes/registry.ts";
import { readBases } from "./local/prepare.ts";
import { existingRun, readConfig, readStatus } from "./local/run-folder.ts";
import { trainLocally } from "./local/train-locally.ts";
import { readQuestions } from "./questions.ts";
import { Report } from "./run-report.ts";
import { printSummary } from "./terminal/run-summary.ts";
import { refuseMissingParts } from "./train.ts";

export interface ResumeOptions {
  readonly extendHours?: number;
  readonly extendUsd?: number;
  readonly extendToolCalls?: number;
  readonly extendToolUsd?: number;
}

export async function resume(run: string, options: ResumeOptions): Promise<void> {
  const extension = extensionOf(options);
  const folder = existingRun(run);
  const status = readStatus(folder);
  // Killed between the two: the report is still to be written.
  if (status.state === "finished" && existsSync(folder.report)) {
    if (extendsAny(extension)) {
      throw new MgrpoError("config-invalid", `run '${run}' is finished: there is nothing to extend`);
    }
    printSummary(parseJson(Report, readFileSync(folder.report), folder.report), folder);
    return;
  }
  const config = readConfig(folder);
  const recipe = await openRecipe(config.recipe);
  await refuseMissingParts(config, "here");
  const report = await trainLocally({
    config,
    folder,
    bases: () => readBases(config, "train"),
    questions: () => readQuestions(recipe, config),
    caseStudies: recipe.caseStudies,
    extension,
  });
  if (report) printSummary(report, folder);
}

/** What the options of this command and of launch add to a run's limits. */
export function extensionOf(options: ResumeOptions): Extension {
  const { extendHours: hours, extendUsd: usd, extendToolCalls: toolCalls, extendToolUsd: toolUsd } = options;
  return { hours, usd, toolCalls, toolUsd };
}
