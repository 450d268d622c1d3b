/** @file A recipe's notes on its questions, for the reader of a run. */
import type { Question } from "../../core/contracts/question.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { openRecipe } from "../../recipes/registry.ts";

/** A run can be shown without its recipe installed, but then has no notes. */
export async function notesOf(name: string): Promise<(question: Question) => string | undefined> {
  try {
    const recipe = await openRecipe(name);
    return (question) => recipe.note?.(question);
  } catch (error) {
    if (isMgrpoError(error, "recipe-invalid")) return () => undefined;
    throw error;
  }
}
