/**
 * @file `mgrpo eval <team> --suite …`: evaluates a team on one suite, in a folder under `--results` whose name identifies the evaluation. The
 * same command resumes an interrupted evaluation and retries lost answers. A complete evaluation is only reported.
 */
import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import colors from "picocolors";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import type { Recipe } from "../../core/recipe.ts";
import type { RaisedBudget } from "../../core/training/run-budget.ts";
import { recipeHash } from "../compare/recipe-source.ts";
import { parseEndpointTeam } from "../endpoint-team.ts";
import { evaluateInFolder, type FinishedJob, type OnPoll } from "../local/evaluate-team.ts";
import { describeLosses } from "../local/lost-answers.ts";
import { preflightEvaluation } from "../local/preflight.ts";
import { readText } from "../local/run-folder.ts";
import { watchForStop } from "../local/stop.ts";
import { writeAtomically } from "../local/written-files.ts";
import { readQuestions, refuseEmpty } from "../questions.ts";
import { accuracy, correctOf, costText } from "../terminal/columns.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { hanging, padColumns, row } from "../terminal/rows.ts";
import { evaluationId } from "./identity.ts";
import { reportSuite, type SuiteReport } from "./suite-report.ts";

export interface PlannedEvaluation {
  readonly config: RunConfig;
  /** The config's first suite. */
  readonly suite: EvaluationSuite;
  readonly recipe: Recipe;
  /** Why sampled scores can differ from those the run reported. */
  readonly notes: readonly string[];
}

/** Maximum characters of the team's part of a folder name. */
const MAX_NAME_LENGTH = 80;

export interface SingleSuiteConfig {
  /** Has exactly one suite, and the team's checkpoints as base models. */
  readonly config: RunConfig;
  readonly suite: EvaluationSuite;
}

export async function evaluateSuite(
  target: string,
  { config, suite, recipe }: SingleSuiteConfig & { readonly recipe: Recipe },
  results: string,
  raised: RaisedBudget,
): Promise<void> {
  const questions = await readQuestions(recipe, config);
  const set = questions.suites?.[suite.name] ?? { questions: questions.heldOut };
  refuseEmpty(suite, set.questions.length);
  let report: SuiteReport | undefined;
  const folder = await evaluateAndKeep(target, { config, suite }, questions, results, {
    raised,
    async onDone({ job, store }, folder) {
      report = await reportSuite(store, folder, target, suite, set, job);
    },
  });
  if (report) print(report, folder);
}

export interface KeptEvaluationOptions {
  readonly raised: RaisedBudget;
  readonly onDone: (done: FinishedJob, folder: string) => void | Promise<void>;
  readonly onPoll?: OnPoll;
}

/**
 * Evaluates the config's one suite, keeps the evaluation in a folder under `results`, and prints how to resume if it ends early. Resolves with
 * the folder.
 */
export async function evaluateAndKeep(
  target: string,
  { config, suite }: SingleSuiteConfig,
  questions: QuestionSet,
  results: string,
  { onDone, ...options }: KeptEvaluationOptions,
): Promise<string> {
  const bases = await preflightEvaluation(config);
  const name = `${folderName(target)}-${suite.name}-${await evaluationId(config, bases, questions)}`;
  const folder = join(results, name);
  const stop = watchForStop();
  let [hasStarted, isComplete] = [false, false];
  const onStart = () => {
    hasStarted = true;
    noteChangedRecipe(folder, config.recipe);
  };
  try {
    const finish = (done: FinishedJob) => onDone(done, folder);
    isComplete = await evaluateInFolder(folder, config, bases, questions, stop, finish, { ...options, onStart });
  } catch (error) {
    if (hasStarted) console.error(`answers so far are kept in ${folder}; run the same command to resume`);
    throw error;
  } finally {
    stop.dispose();
  }
  // A stop after the last answer, while the workers exit, interrupts nothing.
  if (!isComplete) {
    console.error(`stopped; answers so far are kept in ${folder}; run the same command to resume`);
    process.exitCode = 130;
  }
  return folder;
}

/**
 * Warns if the code of a user's recipe is not the one that the evaluation began with. The code is not part of the evaluation's id: otherwise, an
 * edit would make an interrupted evaluation ask, and pay for, everything again.
 */
export function noteChangedRecipe(folder: string, recipe: string): void {
  const hash = recipeHash(recipe);
  if (hash === undefined) return;
  const file = join(folder, "recipe.sha256");
  if (!existsSync(file)) writeAtomically(file, `${hash}\n`);
  if (readText(file).trim() === hash) return;
  console.error(
    `recipe '${recipe}' has changed since this evaluation began: answers and scores so far may come from its earlier code or data; to start the evaluation over, remove ${folder}`,
  );
}

/** The name of the run, file, folder or model, made safe as a folder name. */
function folderName(target: string): string {
  const endpoint = parseEndpointTeam(target);
  const name = endpoint ? endpoint.model.replace(/[^\w.-]+/g, "-") : basename(resolve(target), ".json");
  return name.slice(0, MAX_NAME_LENGTH);
}

function print(report: SuiteReport, folder: string): void {
  if (process.stdout.isTTY) for (const line of reportLines(report, folder)) console.log(line);
  else console.log(JSON.stringify({ ...report, folder }));
  if (report.n === 0 && report.lost.length === 0)
    console.error(
      `this split has no reference answers, so nothing was scored: for a score, submit ${report.submissions.join(" or ")} to the leaderboard`,
    );
  const lost = describeLosses(report);
  if (lost === undefined) return;
  console.error(`${lost}; run the same command to retry`);
  process.exitCode = 1;
}

/** The groups' names come from the file of questions, so they are cleaned. */
export function reportLines(
  { groups, judged, spent, submissions, runs, ...report }: SuiteReport,
  folder: string,
): string[] {
  const share = (score: Pick<SuiteReport, "n" | "correct">) => colors.dim(correctOf(score));
  return [
    "",
    row(report.suite.padEnd(24), colors.green(accuracy(report)), share(report)),
    ...groups.map((group) =>
      row(padColumns(`  ${stripControlCharacters(group.group)}`, 24), accuracy(group), share(group)),
    ),
    ...(runs.length > 1 ? hanging("    ", colors.dim(`each run: ${runs.map(correctOf).join(", ")}`)) : []),
    ...(judged ? hanging("    ", colors.dim(`judge: ${costText(judged)}`)) : []),
    ...(spent.usd > 0 || spent.unpriced.length > 0 ? hanging("    ", colors.dim(`cost: ${spentText(spent)}`)) : []),
    "",
    ...["result.json", ...submissions].map((file) => `  ${join(folder, file)}`),
  ];
}

/** `$0.2500 (agents $0.2000, judge $0.0500, tools $0.0000); models without a price are not counted: set …`. */
function spentText({ usd, agentsUsd, judgesUsd, toolsUsd, unpriced }: SuiteReport["spent"]): string {
  const dollars = (amount: number) => `$${amount.toFixed(4)}`;
  const parts = `agents ${dollars(agentsUsd)}, judge ${dollars(judgesUsd)}, tools ${dollars(toolsUsd)}`;
  const sum = `${dollars(usd)} (${parts})`;
  if (unpriced.length === 0) return sum;
  const advice = `set ${unpriced.join(", ")} and evaluate into another --results folder`;
  return `${sum}; models without a price are not counted: ${advice}`;
}
