/**
 * @file GAIA (Mialon et al. 2023, arXiv 2311.12983; huggingface.co/datasets/gaia-benchmark/GAIA, gated): `metadata.jsonl` of a split,
 * attachments in the same folder. The test split has no answers, only `?`.
 */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import * as z from "zod";
import type { SuiteQuestions } from "../../core/contracts/question.ts";
import { jsonRows, parseRows, type Row, refuse, requireDistinct } from "./rows.ts";

const Task = z.object({
  task_id: z.string().min(1).max(60),
  Question: z.string().min(1),
  Level: z.coerce.number().pipe(z.union([z.literal(1), z.literal(2), z.literal(3)], "must be 1, 2 or 3")),
  "Final answer": z.string(),
  file_name: z.string().nullable(),
});

/** What the leaderboard's system prompt asks for, since answers are compared character by character. */
const FORMAT = [
  "Answer with a number, with as few words as possible, or with a list of such, separated by commas.",
  "Numbers: digits, without thousands separators, and without a unit such as $ or % unless the question asks for it.",
  "Words: no articles and no abbreviations.",
].join(" ");

/** `data`: the folder of a split, or its metadata.jsonl. */
export function loadGaia(data: string): SuiteQuestions {
  const file = statSync(data, { throwIfNoEntry: false })?.isDirectory() ? join(data, "metadata.jsonl") : data;
  const rows = jsonRows(file);
  const tasks = parseRows(rows, Task, "GAIA 2023");
  requireDistinct(
    file,
    rows,
    tasks.map(({ task_id }) => task_id),
  );
  const questions = tasks.map((task, i) => {
    const attachment = task.file_name ? attachmentOf(rows[i] as Row, task.file_name) : undefined;
    const attached = attachment === undefined ? "" : `\n\nThe file that comes with it: ${attachment}`;
    return {
      id: `gaia:${task.task_id}`,
      kind: `level ${task.Level}`,
      level: task.Level,
      prompt: `${task.Question}${attached}\n\n${FORMAT}`,
      answer: task["Final answer"],
      facts: { question: task.Question, task: task.task_id, attachment: attachment ?? null },
    };
  });
  return { questions };
}

function attachmentOf(at: Row, name: string): string {
  if (basename(name) !== name) return refuse(at, `file_name '${name}' is no plain file name`);
  const path = resolve(dirname(at.file), name);
  if (!existsSync(path)) return refuse(at, `its attachment ${path} is missing: put it beside ${basename(at.file)}`);
  return path;
}
