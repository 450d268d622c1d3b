/**
 * @file `mgrpo mine <team>`: asks a team the questions of a file or of the training set several times each, and writes as a file those that
 * it answers correctly in less than the share `--below` of the attempts. It is an evaluation whose folder is kept, so the same command
 * resumes it.
 */
import { existsSync, rmSync } from "node:fs";
import type { RunConfig } from "../core/contracts/config.ts";
import { questionsAsked } from "../core/contracts/evaluation-suite.ts";
import type { EvaluationResult } from "../core/contracts/messages.ts";
import type { Question } from "../core/contracts/question.ts";
import { MgrpoError } from "../core/errors.ts";
import { type EvalOptions, planEvaluation } from "./evaluation-config.ts";
import { resultOf } from "./local/evaluate-team.ts";
import { describeLosses } from "./local/lost-answers.ts";
import { writeNamedFile } from "./local/written-files.ts";
import { showProgress } from "./mine/progress.ts";
import { availableQuestions, readQuestions, refuseEmpty } from "./questions.ts";
import { type BudgetOptions, raisedBudgetOf } from "./resume.ts";
import { evaluateAndKeep, type PlannedEvaluation } from "./suite/evaluate.ts";
import { counted, percent } from "./terminal/columns.ts";
import { openLiveLine } from "./terminal/live.ts";

export interface MineOptions extends EvalOptions, BudgetOptions {
  /** A file of questions, or the name of a suite whose benchmark is `jsonl`. */
  readonly suite?: string;
  /** Ask the training questions instead. */
  readonly train?: boolean;
  /** Exclusive upper bound on the share of correct attempts. */
  readonly below: number;
  readonly samples: number;
  readonly to: string;
  readonly results: string;
}

/** Name of the suite that asks the training questions. */
const TRAINING = "training";

export async function mine(target: string, options: MineOptions): Promise<void> {
  const { to } = options;
  if (existsSync(to)) throw new MgrpoError("config-invalid", `--to ${to} exists: remove it, or name another file`);
  const { config, suite, recipe } = await plan(target, options);
  // A file that cannot be written is refused before the evaluation, which may take hours.
  writeNamedFile("--to", to, "");
  rmSync(to);
  const all = await readQuestions(recipe, config);
  const set = options.train ? { ...all, heldOut: all.train } : all;
  const available = availableQuestions(suite, set);
  refuseEmpty(suite, available.length);
  const asked = questionsAsked(suite, available);
  const live = openLiveLine(process.stderr);
  let result: EvaluationResult | undefined;
  try {
    await evaluateAndKeep(target, { config, suite }, set, options.results, {
      raised: raisedBudgetOf(options),
      onPoll: showProgress(live, suite.name, config, asked.length, suite.runs),
      async onDone(done) {
        result = await resultOf(done);
      },
    });
  } finally {
    live.close();
  }
  if (result) writeHardQuestions(asked, result, options);
}

/** Writes the file, even if answers are lost: a judge may refuse one for good. The exit code is then 1. Throws if the file would be empty. */
export function writeHardQuestions(
  asked: readonly Question[],
  result: EvaluationResult,
  { to, below, samples }: Pick<MineOptions, "to" | "below" | "samples">,
): void {
  const lost = describeLosses(result);
  const kept = hardQuestions(asked, result, below);
  if (kept.length === 0) {
    if (lost !== undefined) throw new MgrpoError("run-halted", `${lost}; run the same command to retry`);
    const advice = below < 1 ? ": raise --below" : "";
    const message = `no question is answered correctly in less than ${percent(below)} of ${counted(samples, "attempt")}${advice}`;
    throw new MgrpoError("not-found", message);
  }
  if (lost !== undefined) {
    console.error(`${lost}; to retry, remove ${to} and run the same command`);
    process.exitCode = 1;
  }
  writeNamedFile("--to", to, `${kept.map((question) => JSON.stringify(question)).join("\n")}\n`);
  const summary = { kind: "mined", file: to, questions: kept.length, of: asked.length, below, samples };
  const text = `  ${to}: ${kept.length} of ${asked.length} questions, correct in less than ${percent(below)} of attempts`;
  console.log(process.stdout.isTTY ? text : JSON.stringify(summary));
}

async function plan(target: string, { suite, train, samples, ...options }: MineOptions): Promise<PlannedEvaluation> {
  if ((suite === undefined) === (train !== true)) {
    throw new MgrpoError("config-invalid", "--suite <name> and --train: give one of the two");
  }
  if (suite !== undefined) {
    const planned = await planEvaluation(target, options, { name: suite, runs: samples });
    refuseHeldOut(planned.config);
    return planned;
  }
  refuseSuiteSettings(options.set);
  const training = `evaluation.suites=${JSON.stringify([{ name: TRAINING, runs: samples }])}`;
  return planEvaluation(target, { ...options, set: [training, ...options.set] });
}

/** With `--train`, the only suite asks the training questions. Refuses settings of suites, except four of this one. */
function refuseSuiteSettings(set: readonly string[]): void {
  const isOfTraining = (setting: string) =>
    /^evaluation\.suites\.0\.(?:temperature|closedBook|skip|questions)=/.test(setting);
  const other = set.find((setting) => /^evaluation(?:\.suites[.=]|=)/.test(setting) && !isOfTraining(setting));
  if (other === undefined) return;
  throw new MgrpoError(
    "config-invalid",
    `--set ${other}: with --train, the only suite asks the training questions, as often as --samples says: set only evaluation.suites.0.temperature, closedBook, skip or questions`,
  );
}

/** Only the user's own questions may become training questions. */
function refuseHeldOut({ evaluation }: RunConfig): void {
  for (const { name, benchmark } of evaluation.suites) {
    if (benchmark === "jsonl") continue;
    const what = benchmark === undefined ? "held-out questions" : `questions of benchmark ${benchmark}`;
    throw new MgrpoError(
      "config-invalid",
      `--suite ${name} asks ${what}, which must not be trained on: give a file of other questions (--suite <file>.jsonl), or --train`,
    );
  }
}

/**
 * The questions that were answered correctly in less than `below` of their attempts, in the order of `asked` and in the format of a file of
 * questions. Lost answers do not count as attempts, so a question whose answers are all lost is left out.
 */
export function hardQuestions(
  asked: readonly Question[],
  { questions }: Pick<EvaluationResult, "questions">,
  below: number,
): Omit<Question, "canary">[] {
  return asked.flatMap(({ canary: _, ...question }, i) => {
    const { n = 0, correct = 0 } = questions[i] ?? {};
    // Loading a file adds the prefix to the ids in it.
    return n > 0 && correct / n < below ? [{ ...question, id: question.id.replace(/^jsonl:/, "") }] : [];
  });
}
