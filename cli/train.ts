/** @file `mgrpo train`: checks and stores the config, trains on this machine, and prints what the run achieved. */
import type { Arm } from "../core/contracts/config.ts";
import { resolveConfig } from "../core/training/resolve-config.ts";
import { openNamedRecipe } from "../recipes/registry.ts";
import { hasStarted } from "./compare/provenance.ts";
import { pinModels } from "./local/hub-models.ts";
import { makeMissingModels } from "./local/missing-models.ts";
import { preflight } from "./local/preflight.ts";
import { checkNewRun, checkRunsFolder, createRunFolder, runFolder } from "./local/run-folder.ts";
import { createUnnamedRun, freeRunName } from "./local/run-name.ts";
import { trainLocally } from "./local/train-locally.ts";
import { checkRunQuestions, readQuestions } from "./questions.ts";
import { printOpening } from "./train/opening.ts";
import { printSummary } from "./train/run-summary.ts";
import { openDashboard } from "./ui/child.ts";

export interface TrainOptions {
  readonly steps?: number;
  readonly seed?: number;
  readonly run?: string;
  readonly arm?: Arm;
  readonly set: readonly string[];
  /** Opens the dashboard in the browser. */
  readonly open?: boolean;
}

export async function train(recipeName: string, options: TrainOptions): Promise<void> {
  const recipe = await openNamedRecipe(recipeName);
  const { arm = "mgrpo", seed = 1 } = options;
  const freeName = () => freeRunName(recipe.name, arm, seed);
  const run = options.run ?? freeName();
  const planned = await pinModels(
    resolveConfig(recipe, { run, seed, arm, set: settingsOf(options), recipe: recipeName }),
  );
  const site = {
    // False for a run that a comparison starts: the comparison has checked the settings of all its runs together.
    begins: () => !hasStarted(runFolder(run)),
    checkStore: () => (options.run === undefined ? checkRunsFolder() : checkNewRun(run)),
  };
  const questions = await readQuestions(recipe, planned);
  checkRunQuestions(planned, questions);
  await makeMissingModels(recipeName, recipe, planned, site);
  const { findings, bases } = await preflight(planned, { workers: "here", models: "read", ...site });
  findings.reportAndThrow();
  const { config, folder } =
    options.run === undefined
      ? createUnnamedRun(planned, freeName)
      : { config: planned, folder: createRunFolder(planned) };
  const dashboard = await openDashboard(config.run, options.open);
  printOpening(config, folder, bases, dashboard?.link);
  const report = await trainLocally({
    config,
    folder,
    bases: () => bases,
    questions: () => questions,
    caseStudies: recipe.caseStudies,
  }).finally(() => dashboard?.close());
  if (report) printSummary(report, folder);
}

/** `--steps n` is short for `--set steps=n`. */
export function settingsOf({ set, steps }: TrainOptions): readonly string[] {
  return steps === undefined ? set : [...set, `steps=${steps}`];
}
