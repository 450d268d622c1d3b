/**
 * @file `mgrpo eval <team> --suite …`: one suite, in a folder under `evaluations/` that the same command finds again. Called again
 * it goes on where it was broken off, and asks again what infrastructure had spoiled; called on a finished one it only reports.
 */
import { basename, join } from "node:path";
import colors from "picocolors";
import type { RunConfig } from "../../core/contracts/config.ts";
import { canonicalJson } from "../../core/contracts/parse.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import type { BudgetExtension } from "../../core/training/run-budget.ts";
import { sha256 } from "../../engine/hash.ts";
import { readEndpoint } from "../endpoint-team.ts";
import { type Bases, hashesOf, readBases } from "../local/base-models.ts";
import { describeLosses, evaluateInFolder, type FinishedJob } from "../local/evaluate-team.ts";
import { refuseMissingKey, refuseMissingTools } from "../local/preflight.ts";
import { watchForStop } from "../local/stop.ts";
import { readQuestions } from "../questions.ts";
import { accuracy, costText } from "../terminal/columns.ts";
import { reportSuite, type SuiteReport } from "./report.ts";

const LONGEST_NAME = 80;

/** `config` has the one suite, and the team's checkpoints as its base models. */
export async function evaluateSuite(
  target: string,
  config: RunConfig,
  recipe: Recipe,
  results: string,
  extension: BudgetExtension,
): Promise<void> {
  const [suite] = config.evaluation.suites;
  if (!suite) throw new MgrpoError("config-invalid", "there is no suite to evaluate");
  refuseMissingKey(config);
  await refuseMissingTools(config);
  const questions = await readQuestions(recipe, config);
  const bases = await readBases(config, "evaluate");
  const folder = join(results, `${nameOf(target)}-${suite.name}-${await identity(config, bases, questions)}`);
  const stop = watchForStop();
  let report: SuiteReport | undefined;
  try {
    const tell = async ({ job, store }: FinishedJob) => {
      const set = questions.suites?.[suite.name] ?? { questions: questions.heldOut };
      report = await reportSuite(store, folder, target, suite, set, job);
    };
    await evaluateInFolder(folder, config, bases, questions, stop, tell, extension);
  } catch (error) {
    console.error(`what was answered is kept in ${folder}; the same command goes on`);
    throw error;
  } finally {
    stop.dispose();
  }
  if (report) return print(report, folder);
  console.error(`stopped; what was answered is kept in ${folder}: the same command goes on`);
  process.exitCode = 130;
}

/** What results are called after: the run, the file, the folder or the model. */
const nameOf = (target: string): string => {
  const endpoint = readEndpoint(target);
  return (endpoint ? endpoint.model.replace(/[^\w.-]+/g, "-") : basename(target, ".json")).slice(0, LONGEST_NAME);
};

/** The same team, asked the same in the same way, is the same evaluation. Where its files lie does not matter, nor what its models cost. */
async function identity(config: RunConfig, bases: Bases, questions: QuestionSet): Promise<string> {
  const agents = Object.entries(config.agents).map(([name, { model: _, endpoint, ...agent }]) => [
    name,
    { ...agent, ...(endpoint && { endpoint: { ...endpoint, usdPerMillionTokens: null } }) },
  ]);
  const suites = config.evaluation.suites.map(({ data: _, criteria: _criteria, ...suite }) => suite);
  const judge = config.judge && { ...config.judge, usdPerMillionTokens: null };
  const asked = { ...config, agents, judge, evaluation: suites };
  return sha256(canonicalJson({ asked, files: await hashesOf(bases), questions })).slice(0, 12);
}

function print(report: SuiteReport, folder: string): void {
  const { suite, n, correct, groups, lost, judged, spent, submissions, runs } = report;
  if (process.stdout.isTTY) {
    console.log(`\n  ${suite.padEnd(24)}${colors.green(accuracy(report))}  ${colors.dim(`${correct} of ${n}`)}`);
    for (const group of groups) {
      console.log(`    ${group.group.padEnd(22)}${accuracy(group)}  ${colors.dim(`${group.correct} of ${group.n}`)}`);
    }
    if (runs.length > 1)
      console.log(colors.dim(`    each run: ${runs.map((run) => `${run.correct} of ${run.n}`).join(", ")}`));
    if (judged) console.log(colors.dim(`    judge: ${costText(judged)}`));
    if (spent.usd > 0 || spent.unpriced.length > 0) console.log(colors.dim(`    paid: ${spentText(spent)}`));
    console.log(`\n  ${join(folder, "result.json")}`);
    for (const file of submissions) console.log(`  ${join(folder, file)}`);
  } else {
    console.log(JSON.stringify({ ...report, folder }));
  }
  if (n === 0 && lost.length === 0) {
    console.error("this split has no reference answers: nothing was scored; hand the submission in for a score");
  }
  const words = describeLosses(report);
  if (words === undefined) return;
  console.error(`${words}; the same command asks again`);
  process.exitCode = 1;
}

/** `$0.25 (agents $0.20, judge $0.05); without a price: tools.reason`. */
function spentText({ usd, agentsUsd, judgesUsd, toolsUsd, unpriced }: SuiteReport["spent"]): string {
  const shown = (dollars: number) => `$${dollars.toFixed(4)}`;
  const parts = `agents ${shown(agentsUsd)}, judge ${shown(judgesUsd)}, tools ${shown(toolsUsd)}`;
  const rest = unpriced.length > 0 ? [`no price: set ${unpriced.join(", ")}`] : [];
  return [`${shown(usd)} (${parts})`, ...rest].join("; ");
}
