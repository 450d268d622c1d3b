/**
 * @file Reads a run's questions and reports those that the team cannot be asked. Refuses curriculum stages without questions, suites that skip
 * all of theirs, and published benchmarks that the run trains on.
 */
import { contentOf, copiesOf, wordingOf } from "../adapters/benchmarks/copies.ts";
import { questionsOf } from "../adapters/benchmarks/load.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { decryptQuestions } from "../core/contracts/encryption.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import { originalWording, type Question, type QuestionSet } from "../core/contracts/question.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { poolOf } from "../core/training/curriculum.ts";
import { counted } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";

const EXAMPLES = 3;

/** Rejects with `benchmark-damaged` or `recipe-invalid`. */
export async function readQuestions(recipe: Recipe, config: RunConfig): Promise<QuestionSet> {
  const set = await questionsOf(recipe, config);
  for (const [suite, { questions, unasked = [] }] of Object.entries(set.suites ?? {})) {
    if (unasked.length === 0) continue;
    const reasons = [...unasked.slice(0, EXAMPLES).map(({ why }) => why), ...(unasked.length > EXAMPLES ? ["…"] : [])];
    const count = `${unasked.length} of ${questions.length + unasked.length} questions`;
    console.error(
      `suite '${suite}': ${count} are not asked and not scored because of their files (${stripControlCharacters(reasons.join("; "))})`,
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

/**
 * Checks the questions of a run before the run is stored. Refuses a stage of the curriculum without training questions, a suite that
 * skips all of its questions, and a published benchmark whose questions are trained on. One line says which levels no stage asks.
 */
export function checkRunQuestions(config: RunConfig, set: QuestionSet): void {
  refuseEmptyStages(config, set);
  noteUnaskedLevels(config, set);
  refuseSkippedSuites(config, set);
  const trained = new Set(set.train.flatMap((question) => [contentOf(question), wordingOf(question.prompt)]));
  for (const suite of config.evaluation.suites) {
    const own = set.suites?.[suite.name];
    if (own) checkTrainedQuestions(suite, decryptQuestions(own).questions, trained);
  }
}

function refuseEmptyStages(config: RunConfig, { train }: QuestionSet): void {
  for (const stage of config.curriculum.keys()) poolOf(config, train, stage);
}

/** The default curriculum has levels 1 to 9, and a recipe's has those of its own questions: a file of questions may have others. */
function noteUnaskedLevels({ curriculum }: RunConfig, { train }: QuestionSet): void {
  const asked = new Set(curriculum.flatMap(({ levels }) => levels));
  const unasked = train.map(({ level }) => level).filter((level) => !asked.has(level));
  if (unasked.length === 0) return;
  const levels = [...new Set(unasked)].sort((a, b) => a - b).join(", ");
  console.error(
    `curriculum: ${unasked.length} of ${counted(train.length, "training question")} are never asked: no stage has level ${levels}`,
  );
}

/**
 * A suite of the user's own file may ask training questions on purpose: one line says that its score is not held-out. `trained`: the `contentOf`
 * and the prompt of each training question.
 */
function checkTrainedQuestions(
  { name, benchmark }: EvaluationSuite,
  asked: readonly Question[],
  trained: ReadonlySet<string>,
): void {
  const both = asked.filter((question) => {
    const copies = benchmark === "jsonl" ? copiesOf(question) : wordingsOf(question);
    return copies.some((copy) => trained.has(copy));
  });
  const [first] = both;
  if (first === undefined) return;
  const found = `suite '${name}': ${both.length} of ${counted(asked.length, "question")} are also training questions (such as '${first.id}')`;
  if (benchmark !== "jsonl") {
    throw new MgrpoError(
      "config-invalid",
      `${found}: remove them from the training questions: a benchmark must not be trained on`,
    );
  }
  console.error(`${found}, so its score is not held-out`);
}

/** How training data may word a benchmark's question: as its authors do, or as a loader does, which adds to the prompt. Facts do not matter. */
const wordingsOf = (question: Question): string[] => [question.prompt, originalWording(question)].map(wordingOf);

/** Refuses suites that skip all of their questions. Without `skip`, a suite may have no questions: a recipe need not have held-out ones. */
export function refuseSkippedSuites({ evaluation }: RunConfig, set: QuestionSet): void {
  for (const suite of evaluation.suites) if (suite.skip) refuseEmpty(suite, availableQuestions(suite, set).length);
}
