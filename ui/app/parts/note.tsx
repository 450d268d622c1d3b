/** @file What the recipe tells the readers of a question, such as that its world's facts are shuffled. */
import type { QuestionView } from "../../views.ts";

export function QuestionNote({ question: { note } }: { readonly question: QuestionView }) {
  return note === null ? null : <p class="note">Note: {note}</p>;
}
