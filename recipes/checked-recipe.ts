/**
 * @file A user's recipe, checked: an exception in its config or in a case study is reported as an error in the user's code, in one line
 * that says where. A note is for readers only: if it throws, they see the exception instead.
 */
import type { Question } from "../core/contracts/question.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { CaseStudy, Recipe, RecipeDefinition } from "../core/recipe.ts";
import { whatThrew } from "./checked-rewards.ts";

/**
 * `file`: the recipe's file, as messages name it. The returned recipe throws `recipe-invalid`, or the MgrpoError that the recipe threw, from
 * `config` and `checks`; its `note` never throws.
 */
export function checkedRecipe(recipe: RecipeDefinition, file: string): Recipe {
  // A recipe may be an instance of a class, whose methods need it as `this`: no copy has its private fields.
  const { name, ask, note, caseStudies, baseModels, demonstrations } = recipe;
  return {
    name,
    config: (arm, chosen) =>
      call(file, "config()", () => (typeof recipe.config === "function" ? recipe.config(arm, chosen) : recipe.config)),
    questions: (seed) => recipe.questions(seed),
    ...(ask && { ask: ask.bind(recipe) }),
    ...(note && { note: (question: Question) => noteOf(file, () => recipe.note?.(question)) }),
    ...(caseStudies && { caseStudies: caseStudies.map((study) => checkedStudy(study, file)) }),
    ...(baseModels && { baseModels }),
    ...(demonstrations && { demonstrations: demonstrations.bind(recipe) }),
  };
}

const checkedStudy = (study: CaseStudy, file: string): CaseStudy => ({
  ...study,
  checks: (question, rollout) =>
    call(file, `case study '${study.name}': checks() for question '${question.id}'`, () =>
      study.checks(question, rollout),
    ),
});

function call<T>(file: string, what: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    throw new MgrpoError("recipe-invalid", `${file}: ${what} ${whatThrew(file, cause)}`, { cause });
  }
}

function noteOf(file: string, run: () => string | undefined): string | undefined {
  try {
    return run();
  } catch (error) {
    return `the recipe's note failed: ${file}: note() ${whatThrew(file, error)}`;
  }
}
