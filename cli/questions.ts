/** @file Reads a run's questions, reports those that the team cannot be asked, and refuses suites and curriculum stages without questions. */
import { questionsOf } from "../adapters/benchmarks/load.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import type { Question, QuestionSet } from "../core/contracts/question.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { poolOf } from "../core/training/curriculum.ts";
import { clean } from "./terminal/clean.ts";
import { counted } from "./terminal/columns.ts";

const EXAMPLES = 3;

/** Rejects with `benchmark-damaged` or `recipe-invalid`. */
export async function readQuestions(recipe: Recipe, config: RunConfig): Promise<QuestionSet> {
  const set = await questionsOf(recipe, config);
  for (const [suite, { questions, unasked = [] }] of Object.entries(set.suites ?? {})) {
    if (unasked.length === 0) continue;
    const reasons = [...unasked.slice(0, EXAMPLES).map(({ why }) => why), ...(unasked.length > EXAMPLES ? ["…"] : [])];
    const count = `${unasked.length} of ${questions.length + unasked.length} questions`;
    console.error(
      `suite '${suite}': ${count} are not asked and not scored because of their files (${clean(reasons.join("; "))})`,
    );
  }
  return set;
}

/** The suite's own questions, or the held-out ones. */
export const availableQuestions = ({ name }: EvaluationSuite, { suites, heldOut }: QuestionSet): readonly Question[] =>
  suites?.[name]?.questions ?? heldOut;

/** Refuses a suite that skips all of its questions, or has none. */
export function refuseEmpty({ name, skip = 0 }: EvaluationSuite, available: number): void {
  if (skip < available) return;
  const why =
    skip > 0
      ? `it skips ${skip}, and its set has ${counted(available, "question")}: lower skip`
      : "its set has no question that can be asked";
  throw new MgrpoError("config-invalid", `suite '${name}' asks nothing: ${why}`);
}

/** Refuses a run with a stage of the curriculum that has no training question, before anything of the run is stored. */
export function refuseEmptyStages(config: RunConfig, { train }: QuestionSet): void {
  for (const stage of config.curriculum.keys()) poolOf(config, train, stage);
}

/**
 * Refuses a run with a suite that skips all of its questions. Without `skip`, a suite may have no questions: a recipe need
 * not have held-out ones.
 */
export function refuseSkippedSuites({ evaluation }: RunConfig, set: QuestionSet): void {
  for (const suite of evaluation.suites) if (suite.skip) refuseEmpty(suite, availableQuestions(suite, set).length);
}
