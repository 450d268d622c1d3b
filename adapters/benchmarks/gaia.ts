/**
 * @file GAIA (Mialon et al. 2023, arXiv 2311.12983; huggingface.co/datasets/gaia-benchmark/GAIA, gated): `metadata.jsonl` of a split,
 * attachments in the same folder. The test split has no answers, only `?`. A question whose file the team cannot read is
 * skipped rather than counted as wrong, unless `attachments` is `all`; `none` skips every question with a file. Because GAIA is gated, the
 * tests use made-up questions.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Attachment } from "../../core/contracts/attachment.ts";
import type { Attachments } from "../../core/contracts/evaluation-suite.ts";
import type { Question, SkippedQuestion, SuiteQuestions } from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Reader } from "../tools/documents/reader.ts";
import { attachmentPath, readAttachment } from "./attachments.ts";
import { type BenchmarkRow, jsonRows, parseRows, requireDistinct } from "./rows.ts";

const GaiaTask = z.object({
  task_id: z.string().min(1).max(60),
  Question: z.string().min(1),
  // A number in JSON Lines, text in Parquet.
  Level: z.union([z.literal([1, 2, 3]), z.enum(["1", "2", "3"]).transform(Number)], "must be 1, 2 or 3"),
  "Final answer": z.string(),
  file_name: z.string().nullable(),
});

/** The first row of the test split is a welcome message in the form of a task. */
const Greeting = z.object({ task_id: z.literal("0-0-0-0-0") });
const isGreeting = (value: unknown): boolean => Greeting.safeParse(value).success;

/** The format that the leaderboard's system prompt demands. The leaderboard's scorer ignores little more than case, spaces and punctuation. */
const FORMAT = [
  "Answer with a number, with as few words as possible, or with a comma-separated list of these.",
  "Numbers: digits, without thousands separators, and without a unit such as $ or % unless the question asks for it.",
  "Words: no articles and no abbreviations.",
].join(" ");

/** `data`: the folder of a split, or its metadata.jsonl. `reader`: undefined if no agent has the tool `read_attachment`. */
export async function loadGaia(
  data: string,
  attachments: Attachments,
  reader: Pick<Reader, "read"> | undefined,
): Promise<SuiteQuestions> {
  const file = statSync(data, { throwIfNoEntry: false })?.isDirectory() ? join(data, "metadata.jsonl") : data;
  const rows = jsonRows(file).filter(({ value }) => !isGreeting(value));
  const tasks = parseRows(rows, GaiaTask, "GAIA 2023");
  requireDistinct(
    file,
    rows,
    tasks.map(({ task_id }) => task_id),
  );
  const questions: Question[] = [];
  const unasked: SkippedQuestion[] = [];
  for (const [i, task] of tasks.entries()) {
    const { file_name: name } = task;
    const id = `gaia:${task.task_id}`;
    if (!name) {
      questions.push(questionOf(task));
    } else if (attachments === "none") {
      unasked.push({ question: id, why: `${name}: attachments is none` });
    } else {
      const path = attachmentPath(rows[i] as BenchmarkRow, name);
      const attachment = await readAttachment(path, reader);
      const { unreadable } = attachment;
      if (unreadable !== undefined && attachments !== "all")
        unasked.push({ question: id, why: `${name}: ${unreadable}` });
      else questions.push(questionOf(task, attachment, unreadable === undefined ? name : path));
    }
  }
  if (questions.length > 0) return { questions, ...(unasked.length > 0 && { unasked }) };
  throw new MgrpoError(
    "benchmark-damaged",
    `${file}: this team can answer none of its questions (${unasked[0]?.why}); docs/benchmarks.md says what attachments need`,
  );
}

/** `shown`: how the prompt names the attachment: by name, or by path if `read_attachment` cannot show its text. */
function questionOf(task: z.infer<typeof GaiaTask>, attachment?: Attachment, shown?: string): Question {
  const attached = shown === undefined ? "" : `\n\nThe file that comes with it: ${shown}`;
  return {
    id: `gaia:${task.task_id}`,
    kind: `level ${task.Level}`,
    level: task.Level,
    prompt: `${task.Question}${attached}\n\n${FORMAT}`,
    answer: task["Final answer"],
    facts: { question: task.Question, task: task.task_id, attachment: attachment ?? null },
  };
}
