/** @file `mgrpo eval`: evaluates a team on this machine: on all its suites, on one named suite, or at each new checkpoint. */
import colors from "picocolors";
import type { JobRecord } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import { raisesBudget } from "../core/training/run-budget.ts";
import { type EvalOptions, planEvaluation } from "./evaluation-config.ts";
import { evaluateLocally, type FinishedJob, resultOf } from "./local/evaluate-team.ts";
import { describeLosses } from "./local/lost-answers.ts";
import { preflightEvaluation } from "./local/preflight.ts";
import { watchForStop } from "./local/stop.ts";
import { readQuestions, refuseSkippedSuites } from "./questions.ts";
import { type BudgetOptions, raisedBudgetOf } from "./resume.ts";
import type { SuiteOptions } from "./suite/choose.ts";
import { accuracy, correctOf } from "./terminal/columns.ts";
import { row } from "./terminal/rows.ts";
import type { EvalWatchOptions } from "./watch.ts";

/** Defaults of `--every` and `--results`. */
const EVERY_SECONDS = 10;
const RESULTS = "evaluations";

type AllOptions = EvalOptions &
  BudgetOptions &
  SuiteOptions &
  Partial<EvalWatchOptions> & { readonly watch?: string; readonly suite?: string };

/** The three forms of the command. An option of another form is refused. */
export async function evaluateOrWatch(target: string | undefined, options: AllOptions): Promise<void> {
  if (options.watch !== undefined) return watchLocation(options.watch, target, options);
  if (options.team !== undefined || options.every !== undefined)
    throw new MgrpoError("config-invalid", "--team and --every go with --watch <location>: add it");
  if (target === undefined) {
    throw new MgrpoError(
      "config-invalid",
      "name a run, a folder, a team file or a model behind an API to evaluate, or a location with --watch",
    );
  }
  return options.suite === undefined ? evaluate(target, options) : evaluateNamed(target, options.suite, options);
}

async function watchLocation(location: string, target: string | undefined, options: AllOptions): Promise<void> {
  const { team, every = EVERY_SECONDS, results = RESULTS } = options;
  if (target !== undefined) throw new MgrpoError("config-invalid", `'${target}' and --watch: give one of the two`);
  if (team === undefined)
    throw new MgrpoError(
      "config-invalid",
      "--watch needs --team <file>, which names the agent whose checkpoints are watched",
    );
  const { watch } = await import("./watch.ts");
  await watch(location, { team, every, results });
}

async function evaluateNamed(target: string, name: string, options: AllOptions): Promise<void> {
  const { evaluateSuite } = await import("./suite/evaluate.ts");
  const planned = await planEvaluation(target, options, { name, ...suiteOptions(options) });
  for (const note of planned.notes) console.error(note);
  await evaluateSuite(target, planned, options.results ?? RESULTS, raisedBudgetOf(options));
}

async function evaluate(target: string, options: AllOptions): Promise<void> {
  refuseSuiteOptions(options);
  const { config, recipe, notes } = await planEvaluation(target, options);
  const questions = await readQuestions(recipe, config);
  refuseSkippedSuites(config, questions);
  const bases = await preflightEvaluation(config);
  for (const note of notes) console.error(note);
  const stop = watchForStop();
  const isComplete = await evaluateLocally(config, bases, questions, stop, report).finally(() => stop.dispose());
  if (isComplete) return;
  console.error("stopped before every suite was evaluated");
  process.exitCode = 130;
}

function suiteOptions({ data, criteria, runs, attachments }: SuiteOptions): SuiteOptions {
  return {
    ...(data !== undefined && { data }),
    ...(criteria !== undefined && { criteria }),
    ...(runs !== undefined && { runs }),
    ...(attachments !== undefined && { attachments }),
  };
}

function refuseSuiteOptions(options: AllOptions): void {
  if (raisesBudget(raisedBudgetOf(options))) {
    throw new MgrpoError(
      "config-invalid",
      "the --budget options resume an evaluation that was kept: add --suite <name>, or set a higher budget with --set",
    );
  }
  const [alone] = options.results === undefined ? Object.keys(suiteOptions(options)) : ["results"];
  if (alone !== undefined) throw new MgrpoError("config-invalid", `--${alone} goes with --suite <name>: add it`);
}

async function report(done: FinishedJob): Promise<void> {
  print(done.job);
  const lost = describeLosses(await resultOf(done));
  if (lost === undefined) return;
  console.error(`suite ${done.job.suite}: ${lost}`);
  process.exitCode = 1;
}

function print(job: JobRecord): void {
  const { suite, n, correct, runs, interval } = job;
  if (process.stdout.isTTY) {
    console.log(row(suite.padEnd(20), colors.green(accuracy(job)), colors.dim(correctOf(job))));
    return;
  }
  console.log(JSON.stringify({ kind: "evaluation", suite, n, correct, ...interval, runs }));
}
