/** @file Reads a run's questions on the machine that starts it, and reports there the questions that the team cannot be asked. */
import { questionsOf } from "../adapters/benchmarks/load.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import type { QuestionSet } from "../core/contracts/question.ts";
import type { Recipe } from "../core/recipe.ts";
import { clean } from "./terminal/clean.ts";

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
