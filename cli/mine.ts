/**
 * @file `mgrpo mine <team>`: asks a team every question of a suite or of the training set several times, and writes those that it answers
 * correctly less often than `--below` as a file of questions. It is an evaluation in a folder that is kept: the same command resumes it, and
 * the same team, questions and seed give the same file.
 */
import { existsSync } from "node:fs";
import { questionsAsked } from "../core/contracts/evaluation-suite.ts";
import type { EvaluationResult } from "../core/contracts/messages.ts";
import type { Question, QuestionSet } from "../core/contracts/question.ts";
import { MgrpoError } from "../core/errors.ts";
import { type EvalOptions, planEvaluation } from "./evaluation-config.ts";
import { describeLosses, resultOf } from "./local/evaluate-team.ts";
import { writeAtomically } from "./local/run-folder.ts";
import { showProgress } from "./mine/progress.ts";
import { readQuestions } from "./questions.ts";
import { evaluateAndKeep, type PlannedEvaluation } from "./suite/evaluate.ts";
import { counted, percent } from "./terminal/columns.ts";
import { openLiveLine } from "./terminal/live.ts";

export interface MineOptions extends EvalOptions {
  /** A suite of the run or recipe, or a file of questions. */
  readonly suite?: string;
  /** Ask the training questions instead. */
  readonly train?: boolean;
  /** Exclusive. */
  readonly below: number;
  readonly samples: number;
  readonly to: string;
  readonly results: string;
}

/** Name of the suite that asks the training questions. */
const TRAINING = "training";

export async function mine(target: string, options: MineOptions): Promise<void> {
  const { to, below, samples } = options;
  if (existsSync(to)) throw new MgrpoError("config-invalid", `--to ${to} exists: remove it, or name another file`);
  const { config, suite, recipe } = await plan(target, options);
  const all = await readQuestions(recipe, config);
  const set = options.train ? { ...all, heldOut: all.train } : all;
  const asked = questionsAsked(suite, questionsOf(set, suite.name));
  const live = openLiveLine(process.stderr);
  let result: EvaluationResult | undefined;
  try {
    await evaluateAndKeep(target, { config, suite }, set, options.results, {
      onPoll: showProgress(live, suite.name, config, asked.length, suite.runs),
      async onDone(done) {
        result = await resultOf(done);
      },
    });
  } finally {
    live.close();
  }
  if (!result) return;
  const lost = describeLosses(result);
  if (lost !== undefined) throw new MgrpoError("run-halted", `${lost}; run the same command to retry`);
  const kept = hardest(asked, result, below);
  if (kept.length === 0) {
    const message = `no question is answered correctly in less than ${percent(below)} of ${counted(samples, "attempt")}: raise --below`;
    throw new MgrpoError("not-found", message);
  }
  writeAtomically(to, `${kept.map((question) => JSON.stringify(question)).join("\n")}\n`);
  const summary = { kind: "mined", file: to, questions: kept.length, of: asked.length, below, samples };
  if (!process.stdout.isTTY) return console.log(JSON.stringify(summary));
  console.log(
    `  ${to}: ${kept.length} of ${asked.length} questions, correct in less than ${percent(below)} of attempts`,
  );
}

function plan(target: string, { suite, train, samples, ...options }: MineOptions): Promise<PlannedEvaluation> {
  if ((suite === undefined) === (train !== true)) {
    throw new MgrpoError("config-invalid", "--suite <name> and --train: give one of the two");
  }
  if (suite !== undefined) return planEvaluation(target, options, { name: suite, runs: samples });
  const training = `evaluation.suites=${JSON.stringify([{ name: TRAINING, runs: samples }])}`;
  return planEvaluation(target, { ...options, set: [...options.set, training] });
}

/** The questions of a published benchmark are evaluated, not collected: its questions may be encrypted, and must not be trained on. */
function questionsOf(set: QuestionSet, suite: string): readonly Question[] {
  const questions = set.suites?.[suite]?.questions ?? set.heldOut;
  if (set.suites?.[suite]?.canary === undefined) return questions;
  throw new MgrpoError("config-invalid", `--suite ${suite} is encrypted: its questions cannot be written to a file`);
}

/** In the order of the set, as lines of a file of questions. */
export function hardest(
  asked: readonly Question[],
  { questions }: Pick<EvaluationResult, "questions">,
  below: number,
): Omit<Question, "canary">[] {
  return asked.flatMap(({ canary: _, ...question }, i) => {
    const { n = 0, correct = 0 } = questions[i] ?? {};
    // A file has ids of its own: loading it adds the prefix.
    return n > 0 && correct / n < below ? [{ ...question, id: question.id.replace(/^jsonl:/, "") }] : [];
  });
}
