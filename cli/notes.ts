/** @file What a recipe tells the reader of a run: its notes on questions, and its case studies. */
import type { Question } from "../core/contracts/question.ts";
import { isMgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { openRecipe } from "../recipes/registry.ts";

/** Undefined if the recipe cannot be opened: a run can be shown without it. */
export async function findRecipe(name: string): Promise<Recipe | undefined> {
  try {
    return await openRecipe(name);
  } catch (error) {
    if (isMgrpoError(error, "recipe-invalid")) return undefined;
    throw error;
  }
}

/** The recipe's note on a question. Undefined: it has none. */
export type NoteOf = (question: Question) => string | undefined;

export async function notesOf(name: string): Promise<NoteOf> {
  const recipe = await findRecipe(name);
  return (question) => recipe?.note?.(question);
}
