/**
 * @file Custom questions: JSON Lines, one object per line.
 *
 *     {"id": "q1", "prompt": "…", "answer": "…", "level": 1, "kind": "…", "facts": {}}      the last three are optional
 *
 * The answer may be empty, as in a recipe: its rewards may go by the facts alone.
 */
import * as z from "zod";
import { WrittenQuestionId } from "../../core/contracts/names.ts";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { type BenchmarkRow, jsonRows, parseRows, rejectRow, requireDistinct } from "./rows.ts";

const JsonlTask = z.strictObject({
  id: WrittenQuestionId,
  prompt: z.string().min(1),
  answer: z.string(),
  level: z.int().positive().default(1),
  kind: z.string().min(1).default("question"),
  facts: z.json().default({}),
});

export function loadJsonl(file: string): SuiteQuestions {
  const rows = jsonRows(file, "name a question file by its path, absolute or relative to the working directory");
  for (const row of rows) refuseQuestionKey(row);
  const tasks = parseRows(rows, JsonlTask);
  requireDistinct(
    file,
    rows,
    tasks.map(({ id }) => id),
  );
  return { questions: tasks.map((task) => ({ ...task, id: `jsonl:${task.id}` })) };
}

/** The key of a question's text is `question` in some benchmarks, but `prompt` in custom files, as in recipes. */
function refuseQuestionKey(row: BenchmarkRow): void {
  const { value } = row;
  if (value !== null && typeof value === "object" && "question" in value) {
    rejectRow(row, "it has the key 'question': write 'prompt' instead");
  }
}
