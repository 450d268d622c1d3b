/** @file What the recipe tells the readers of a question, such as that its world's facts are shuffled. */
export function QuestionNote({ note }: { readonly note: string | null }) {
  return note === null ? null : <p class="note">Note: {note}</p>;
}
