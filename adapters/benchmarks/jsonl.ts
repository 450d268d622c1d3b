/**
 * @file Custom questions: JSON Lines, one object per line.
 *
 *     {"id": "q1", "question": "…", "answer": "…", "level": 1, "kind": "…", "facts": {}}      the last three are optional
 */
import * as z from "zod";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { jsonRows, parseRows, requireDistinct } from "./rows.ts";

const Task = z.strictObject({
  id: z.string().min(1).max(60),
  question: z.string().min(1),
  answer: z.string().min(1),
  level: z.int().positive().default(1),
  kind: z.string().min(1).default("question"),
  facts: z.json().default({}),
});

export function loadJsonl(file: string): SuiteQuestions {
  const rows = jsonRows(file);
  const tasks = parseRows(rows, Task, "JSON Lines of id, question, answer, level, kind and facts");
  requireDistinct(
    file,
    rows,
    tasks.map(({ id }) => id),
  );
  return { questions: tasks.map(({ question, id, ...task }) => ({ ...task, id: `jsonl:${id}`, prompt: question })) };
}
